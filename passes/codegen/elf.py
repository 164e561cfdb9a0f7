"""Reads x86-64 ELF relocatable objects into Python records.

Source: System V ABI, AMD64 supplement 1.0, and the generic ABI's chapters on object files.
"""

from __future__ import annotations

import struct
from collections.abc import Collection
from dataclasses import astuple, dataclass, field, replace
from pathlib import Path

X86_64 = 62
ET_REL, ET_DYN = 1, 3
"""Types of ELF files: a relocatable object, and a shared library."""

SHT_PROGBITS, SHT_SYMTAB, SHT_RELA, SHT_NOBITS, SHT_INIT_ARRAY, SHT_X86_64_UNWIND = 1, 2, 4, 8, 14, 0x70000001
_64_BIT = b"\x7fELF\x02\x01"
LOADED_KINDS = (SHT_PROGBITS, SHT_NOBITS, SHT_INIT_ARRAY, SHT_X86_64_UNWIND)
SHF_WRITE, SHF_ALLOC, SHF_EXECINSTR, SHF_TLS = 1, 2, 4, 0x400

STB_LOCAL, STB_GLOBAL, STB_WEAK = 0, 1, 2
STV_DEFAULT = 0
SHN_UNDEF, SHN_ABS, SHN_COMMON = 0, 0xFFF1, 0xFFF2

ELF_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
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

    @property
    def lists_constructors(self) -> bool:
        """Whether it is a table of the addresses of functions that the loader calls when it has loaded the library."""
        return self.kind == SHT_INIT_ARRAY


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
class ElfHeader:
    """The header at the start of an ELF file; the comments are the field names of the ABI."""

    identification: bytes  # e_ident
    kind: int  # e_type
    machine: int  # e_machine
    version: int  # e_version
    entry_point: int  # e_entry
    program_headers_offset: int  # e_phoff
    section_headers_offset: int  # e_shoff
    flags: int  # e_flags
    header_size: int  # e_ehsize
    program_header_size: int  # e_phentsize
    program_header_count: int  # e_phnum
    section_header_size: int  # e_shentsize
    section_header_count: int  # e_shnum
    section_names_index: int  # e_shstrndx


@dataclass(frozen=True)
class _SectionHeader:
    """An entry of the table of section headers; ``name`` is an offset in the table of names."""

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
    return _ObjectReader(path, image).read()


def _check_machine(path: Path, image: bytes) -> None:
    """Raises UnsupportedObjectError for anything but a relocatable x86-64 ELF object."""
    if not image.startswith(_64_BIT):
        raise UnsupportedObjectError(f"{path} isn't a 64-bit little-endian ELF object; it starts with {image[:6]!r}")
    header = _elf_header(image)
    if (header.kind, header.machine) != (ET_REL, X86_64):
        raise UnsupportedObjectError(
            f"{path} is ELF type {header.kind} for machine {header.machine}, not type 1 for machine 62 (x86-64)"
        )


def _elf_header(image: bytes) -> ElfHeader:
    return ElfHeader(*ELF_HEADER.unpack_from(image))


def _section_headers(image: bytes) -> list[_SectionHeader]:
    """Reads the table of section headers."""
    header = _elf_header(image)
    start = header.section_headers_offset
    # A count that doesn't fit 16 bits is given as 0, and is the size of the first section.
    count = header.section_header_count or _SectionHeader(*SECTION_HEADER.unpack_from(image, start)).size
    return [_SectionHeader(*SECTION_HEADER.unpack_from(image, start + SECTION_HEADER.size * i)) for i in range(count)]


def _name_at(image: bytes, table: _SectionHeader, offset: int) -> str:
    """Returns the name at an offset of a table of names, which end with a zero byte."""
    start = table.offset + offset
    return image[start : image.index(b"\0", start)].decode()


class _ObjectReader:
    """Reads the sections, symbols and relocations of one object file."""

    def __init__(self, path: Path, image: bytes) -> None:
        self.path, self.image = path, image
        self.headers = _section_headers(image)

    def read(self) -> ObjectFile:
        """Reads the object file; symbols refer to sections, and relocations to both, by index."""
        sections = self.sections()
        symbols = self.symbols(sections)
        return ObjectFile(self.path, list(sections.values()), symbols, self.relocations(sections, symbols))

    def sections(self) -> dict[int, Section]:
        """Reads the sections that a program loads into memory; returns them by their section index.

        Other sections, such as debug information, aren't linked.
        """
        names = self.headers[_elf_header(self.image).section_names_index]
        return {
            index: self.section(header, _name_at(self.image, names, header.name))
            for index, header in enumerate(self.headers)
            if header.flags & SHF_ALLOC and header.size
        }

    def section(self, header: _SectionHeader, name: str) -> Section:
        """Reads a section.

        Args:
          header: the header of the section.
          name: the name of the section.

        Raises:
          UnsupportedObjectError: it isn't code or data, or has thread-local data, or constructors with a priority, such
            as ``.init_array.100``, which would have to be sorted.
        """
        has_priority = header.kind == SHT_INIT_ARRAY and name != ".init_array"
        if header.kind not in LOADED_KINDS or header.flags & SHF_TLS or has_priority:
            raise UnsupportedObjectError(f"{self.path} has section {name} of kind {header.kind}")
        data = b"" if header.kind == SHT_NOBITS else self.image[header.offset : header.offset + header.size]
        return Section(name, header.kind, header.flags, max(header.align, 1), header.size, data)

    def symbols(self, sections: dict[int, Section]) -> list[Symbol]:
        """Reads the symbols in the order of the symbol table: relocations refer to symbols by index.

        Args:
          sections: the sections that are loaded, by their index.
        """
        table = next((header for header in self.headers if header.kind == SHT_SYMTAB), None)
        if table is None:
            return []
        name_table = self.headers[table.link]
        symbols = []
        for entry in _entries(self.image, table, SYMBOL):
            name_offset = entry[0]
            symbols.append(self.symbol(_name_at(self.image, name_table, name_offset), entry, sections))
        return symbols

    def symbol(self, name: str, entry: tuple[int, ...], sections: dict[int, Section]) -> Symbol:
        """Builds a symbol from its entry in the symbol table; raises UnsupportedObjectError for common symbols.

        Args:
          name: the name of the symbol.
          entry: the fields of its entry in the symbol table.
          sections: the sections that are loaded, by their index.
        """
        _name_offset, info, visibility, section_index, value, size = entry
        if section_index == SHN_COMMON:
            raise UnsupportedObjectError(f"{self.path} has the common symbol {name}")
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

    def relocations(self, sections: dict[int, Section], symbols: list[Symbol]) -> list[Relocation]:
        """Reads the relocations of all sections that are loaded.

        Args:
          sections: the sections that are loaded, by their index.
          symbols: the symbols in the order of the symbol table.
        """
        relocations = []
        for header in self.headers:
            if header.kind == SHT_RELA and header.info in sections:
                for offset, info, addend in _entries(self.image, header, RELA):
                    # The upper half of `info` is the index of the symbol, the lower half the kind of relocation.
                    symbol = symbols[info >> 32]
                    kind = info & 0xFFFFFFFF
                    relocations.append(Relocation(sections[header.info], offset, kind, symbol, addend))
        return relocations


def _entries(image: bytes, table: _SectionHeader, layout: struct.Struct) -> list[tuple[int, ...]]:
    """Returns the entries of a table, each as a tuple of its fields."""
    return list(layout.iter_unpack(image[table.offset : table.offset + table.size]))


def _symbol_table(headers: list[_SectionHeader]) -> _SectionHeader:
    return next(header for header in headers if header.kind == SHT_SYMTAB)


def with_symbol_renamed(image: bytes, old: str, new: str) -> bytes:
    """Renames the symbol ``old`` to ``new`` in a 64-bit little-endian ELF object, and returns the new object file.

    The table of names is copied to the end of the file, and the new name is appended to it. A longer table in its place
    would move other sections, whose offsets occur throughout the file.
    """
    result = bytearray(image)
    headers = _section_headers(image)
    table = _symbol_table(headers)
    names = headers[table.link]
    name_table = image[names.offset : names.offset + names.size]
    new_name_offset = len(name_table)
    for index, (name_offset, *others) in enumerate(_entries(image, table, SYMBOL)):
        if _name_at(image, names, name_offset) == old:
            SYMBOL.pack_into(result, table.offset + SYMBOL.size * index, new_name_offset, *others)
    new_names = replace(names, offset=len(result), size=len(name_table) + len(new) + 1)
    header_offset = _elf_header(image).section_headers_offset + SECTION_HEADER.size * table.link
    SECTION_HEADER.pack_into(result, header_offset, *astuple(new_names))
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
    symbol_table = _symbol_table(headers)
    name_table = headers[symbol_table.link]
    removed = set()
    for index, (name_offset, _info, visibility, *_) in enumerate(_entries(image, symbol_table, SYMBOL)):
        if _name_at(image, name_table, name_offset) in names:
            removed.add(index)
            undefined = (name_offset, STB_WEAK << 4, visibility, SHN_UNDEF, 0, 0)
            SYMBOL.pack_into(result, symbol_table.offset + SYMBOL.size * index, *undefined)
    relocation_tables = [header for header in headers if header.kind == SHT_RELA]
    # The upper half of a relocation's `info` is the index of its symbol.
    referenced = {info >> 32 for table in relocation_tables for _, info, _ in _entries(image, table, RELA)}
    return None if removed & referenced else bytes(result)
