"""Reads x86-64 ELF relocatable objects into Python records.

Source: System V ABI, AMD64 supplement 1.0, and the generic ABI's chapters on object files.
"""

from __future__ import annotations

import struct
from collections.abc import Collection
from dataclasses import astuple, dataclass, field, replace
from pathlib import Path

X86_64 = 62
RELOCATABLE = 1

SHT_PROGBITS, SHT_SYMTAB, SHT_RELA, SHT_NOBITS, SHT_X86_64_UNWIND = 1, 2, 4, 8, 0x70000001
_64_BIT = b"\x7fELF\x02\x01"
LOADED_KINDS = (SHT_PROGBITS, SHT_NOBITS, SHT_X86_64_UNWIND)
SHF_WRITE, SHF_ALLOC, SHF_EXECINSTR, SHF_TLS = 1, 2, 4, 0x400

STB_LOCAL, STB_GLOBAL, STB_WEAK = 0, 1, 2
STV_DEFAULT = 0
SHN_UNDEF, SHN_ABS, SHN_COMMON = 0, 0xFFF1, 0xFFF2

SECTION_HEADER = struct.Struct("<IIQQQQIIQQ")
SYMBOL = struct.Struct("<IBBHQQ")
RELA = struct.Struct("<QQq")


class UnsupportedObjectError(ValueError):
    """An object file needs something that the built-in linker doesn't support; the text says what."""


@dataclass(eq=False)
class Section:
    """A section that is loaded: its bytes (empty for zero-filled memory), and its address after layout."""

    name: str
    kind: int
    flags: int
    align: int
    size: int
    data: bytes = b""
    address: int = 0

    @property
    def writable(self) -> bool:
        """Whether the program may write to it."""
        return bool(self.flags & SHF_WRITE)

    @property
    def executable(self) -> bool:
        """Whether it contains code."""
        return bool(self.flags & SHF_EXECINSTR)

    @property
    def zero_filled(self) -> bool:
        """Whether it takes memory but no space in the file."""
        return self.kind == SHT_NOBITS


@dataclass(eq=False)
class Symbol:
    """A name for an address in a section, or for something that another library defines."""

    name: str
    binding: int
    kind: int
    visibility: int
    section: Section | None
    value: int
    size: int
    defined: bool

    @property
    def address(self) -> int:
        """The symbol's address after layout."""
        return self.value + (self.section.address if self.section else 0)


@dataclass(frozen=True)
class Relocation:
    """A field of `section` at `offset` that depends on the address of `symbol`."""

    section: Section
    offset: int
    kind: int
    symbol: Symbol
    addend: int

    @property
    def place(self) -> int:
        """The address of the field after layout."""
        return self.section.address + self.offset


@dataclass
class ObjectFile:
    """The sections, symbols and relocations of one `.o` file."""

    path: Path
    sections: list[Section] = field(default_factory=list)
    symbols: list[Symbol] = field(default_factory=list)
    relocations: list[Relocation] = field(default_factory=list)


@dataclass(frozen=True)
class _Header:
    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    align: int
    entry_size: int


def read_object(path: Path) -> ObjectFile:
    """Reads one relocatable object; raises `UnsupportedObjectError` for anything but x86-64 ELF."""
    return parse_object(path, path.read_bytes())


def parse_object(path: Path, image: bytes) -> ObjectFile:
    """Parses the content ``image`` of an ELF object file.

    `path` is used in error texts only. Raises UnsupportedObjectError for anything but relocatable x86-64 ELF.
    """
    _check_machine(path, image)
    headers = _section_headers(image)
    result = ObjectFile(path)
    sections = _read_sections(path, image, headers)
    result.sections = list(sections.values())
    result.symbols = _read_symbols(path, image, headers, sections)
    result.relocations = _read_relocations(image, headers, sections, result.symbols)
    return result


def _check_machine(path: Path, image: bytes) -> None:
    """Raises UnsupportedObjectError for anything but a relocatable x86-64 ELF object."""
    if not image.startswith(_64_BIT):
        raise UnsupportedObjectError(f"{path} isn't a 64-bit little-endian ELF object; it starts with {image[:6]!r}")
    # e_type and e_machine of the ELF header.
    kind, machine = struct.unpack_from("<HH", image, 16)
    if (kind, machine) != (RELOCATABLE, X86_64):
        raise UnsupportedObjectError(
            f"{path} is ELF type {kind} for machine {machine}, not type 1 for machine 62 (x86-64)"
        )


def _section_headers(image: bytes) -> list[_Header]:
    """Reads the table of section headers, whose offset and length are in the ELF header (``e_shoff``, ``e_shnum``)."""
    (start,) = struct.unpack_from("<Q", image, 40)
    (count,) = struct.unpack_from("<H", image, 60)
    # A count that doesn't fit 16 bits is given as 0, and is the size of the first section.
    count = count or _Header(*SECTION_HEADER.unpack_from(image, start)).size
    return [_Header(*SECTION_HEADER.unpack_from(image, start + SECTION_HEADER.size * i)) for i in range(count)]


def _name_at(image: bytes, table: _Header, offset: int) -> str:
    """Returns the name at an offset of a table of names, which end with a zero byte."""
    start = table.offset + offset
    return image[start : image.index(b"\0", start)].decode()


def _read_sections(path: Path, image: bytes, headers: list[_Header]) -> dict[int, Section]:
    """Reads the sections of an object file that a program loads into memory; returns them by their section index.

    Other sections, such as debug information, aren't linked.
    """
    # The ELF header's field e_shstrndx: the index of the section with the names of sections.
    (names_index,) = struct.unpack_from("<H", image, 62)
    sections = {}
    for index, header in enumerate(headers):
        if header.flags & SHF_ALLOC and header.size:
            name = _name_at(image, headers[names_index], header.name)
            sections[index] = _read_section(path, image, header, name)
    return sections


def _read_section(path: Path, image: bytes, header: _Header, name: str) -> Section:
    """Reads a section; raises UnsupportedObjectError for a kind that isn't code or data, and for thread-local data."""
    if header.kind not in LOADED_KINDS or header.flags & SHF_TLS:
        raise UnsupportedObjectError(f"{path} has section {name} of kind {header.kind}")
    data = b"" if header.kind == SHT_NOBITS else image[header.offset : header.offset + header.size]
    return Section(name, header.kind, header.flags, max(header.align, 1), header.size, data)


def _read_symbols(path: Path, image: bytes, headers: list[_Header], sections: dict[int, Section]) -> list[Symbol]:
    """Reads the symbols of an object file, in the order of its symbol table: relocations refer to symbols by index."""
    table = next((header for header in headers if header.kind == SHT_SYMTAB), None)
    if table is None:
        return []
    name_table = headers[table.link]
    entry_offsets = range(table.offset, table.offset + table.size, SYMBOL.size)
    return [
        _read_symbol(path, image, name_table, sections, SYMBOL.unpack_from(image, offset)) for offset in entry_offsets
    ]


def _read_symbol(
    path: Path, image: bytes, names: _Header, sections: dict[int, Section], entry: tuple[int, ...]
) -> Symbol:
    """Builds a symbol from its entry in the symbol table; raises UnsupportedObjectError for common symbols.

    Args:
      path: the object file, for the text of an error.
      image: its content.
      names: the section header of the table of names.
      sections: the loaded sections, by section index.
      entry: the fields of the symbol's entry.
    """
    name_offset, info, visibility, section_index, value, size = entry
    name = _name_at(image, names, name_offset)
    if section_index == SHN_COMMON:
        raise UnsupportedObjectError(f"{path} has the common symbol {name}")
    return Symbol(
        name,
        # The upper four bits of `info` are the binding, and the lower four bits the kind.
        binding=info >> 4,
        kind=info & 15,
        visibility=visibility & 3,
        section=sections.get(section_index),
        value=value,
        size=size,
        defined=section_index != SHN_UNDEF,
    )


def _read_relocations(
    image: bytes, headers: list[_Header], sections: dict[int, Section], symbols: list[Symbol]
) -> list[Relocation]:
    """Reads the relocations of all sections that are loaded.

    In an entry, the upper half of ``info`` is the index of the symbol, and the lower half is the kind of relocation.
    """
    relocations = []
    for header in headers:
        if header.kind == SHT_RELA and header.info in sections:
            for entry_offset in range(header.offset, header.offset + header.size, RELA.size):
                offset, info, addend = RELA.unpack_from(image, entry_offset)
                symbol, kind = symbols[info >> 32], info & 0xFFFFFFFF
                relocations.append(Relocation(sections[header.info], offset, kind, symbol, addend))
    return relocations


def with_symbol_renamed(image: bytes, old: str, new: str) -> bytes:
    """Renames the symbol ``old`` to ``new`` in a 64-bit little-endian ELF object, and returns the new object file.

    The table of names is copied to the end of the file, followed by the new name: there it can grow without moving
    other sections, whose offsets are all over the file.
    """
    result = bytearray(image)
    headers = _section_headers(image)
    table = next(header for header in headers if header.kind == SHT_SYMTAB)
    names = headers[table.link]
    name_table = image[names.offset : names.offset + names.size]
    for entry_offset in range(table.offset, table.offset + table.size, SYMBOL.size):
        name_offset, *others = SYMBOL.unpack_from(image, entry_offset)
        if _name_at(image, names, name_offset) == old:
            SYMBOL.pack_into(result, entry_offset, len(name_table), *others)
    new_names = replace(names, offset=len(result), size=len(name_table) + len(new) + 1)
    # e_shoff: where the section headers are.
    (start,) = struct.unpack_from("<Q", image, 40)
    SECTION_HEADER.pack_into(result, start + SECTION_HEADER.size * table.link, *astuple(new_names))
    return bytes(result) + name_table + new.encode() + b"\0"


def without_unused(image: bytes, names: Collection[str]) -> bytes | None:
    """Removes the definitions of unused symbols from a 64-bit little-endian ELF object.

    The symbols become weak and undefined: another object may define them. Returns None if the object refers to one of
    the symbols, or has another format.

    Args:
      image: the content of the object file.
      names: the names of the symbols.
    """
    if not image.startswith(_64_BIT):
        return None
    result = bytearray(image)
    headers = _section_headers(image)
    table = next(header for header in headers if header.kind == SHT_SYMTAB)
    unused = set()
    for index, entry_offset in enumerate(range(table.offset, table.offset + table.size, SYMBOL.size)):
        name_offset, _, visibility, *_ = SYMBOL.unpack_from(image, entry_offset)
        if _name_at(image, headers[table.link], name_offset) in names:
            unused.add(index)
            SYMBOL.pack_into(result, entry_offset, name_offset, STB_WEAK << 4, visibility, SHN_UNDEF, 0, 0)
    referred = {
        info >> 32 for header in headers if header.kind == SHT_RELA for info in _relocation_infos(image, header)
    }
    return None if unused & referred else bytes(result)


def _relocation_infos(image: bytes, header: _Header) -> list[int]:
    """Returns the field ``r_info`` of each relocation in a section."""
    return [info for _, info, _ in RELA.iter_unpack(image[header.offset : header.offset + header.size])]
