"""Builds an x86-64 shared library from relocatable objects.

Three segments: read-only (tables for the loader, constants), code (with a stub per foreign function), and
writable data (with the address table).

Source: System V ABI, AMD64 supplement 1.0, sections 4.4 (relocation) and 5.2 (dynamic linking).
"""

from __future__ import annotations

import struct
from dataclasses import astuple
from typing import Any

from tvtf.core.integers import round_up
from tvtf.passes.codegen.elf import (
    ELF_HEADER,
    ET_DYN,
    RELA,
    SECTION_HEADER,
    SHF_EXECINSTR,
    SHF_WRITE,
    SHT_PROGBITS,
    STB_GLOBAL,
    STB_LOCAL,
    STB_WEAK,
    STV_DEFAULT,
    SYMBOL,
    X86_64,
    ElfHeader,
    ObjectFile,
    Relocation,
    Section,
    Symbol,
    UnsupportedObjectError,
)

PAGE = 4096
PROGRAM_HEADER = struct.Struct("<IIQQQQQQ")
PROGRAM_HEADERS = 5
PT_LOAD, PT_DYNAMIC, PT_GNU_STACK = 1, 2, 0x6474E551
PF_X, PF_W, PF_R = 1, 2, 4
STUB_SIZE, POINTER_SIZE = 16, 8

R_64, R_PC32, R_PLT32, R_GLOB_DAT, R_RELATIVE = 1, 2, 4, 6, 8
R_GOTPCREL, R_PC64, R_GOTPCRELX, R_REX_GOTPCRELX = 9, 24, 41, 42
THROUGH_TABLE = (R_GOTPCREL, R_GOTPCRELX, R_REX_GOTPCRELX)
RELATIVE = (R_PC32, R_PLT32)
KNOWN = (R_64, R_PC64, *THROUGH_TABLE, *RELATIVE)

DT_NEEDED, DT_HASH, DT_STRTAB, DT_SYMTAB, DT_RELA, DT_RELASZ, DT_RELAENT = 1, 4, 5, 6, 7, 8, 9
DT_STRSZ, DT_SYMENT, DT_NULL, DT_INIT_ARRAY, DT_INIT_ARRAYSZ = 10, 11, 0, 25, 27
DYNAMIC_ENTRIES = 12
NEEDED_LIBRARY = "libm.so.6"


def shared_library(objects: list[ObjectFile]) -> bytes:
    """Lays out the objects, resolves references and returns the file; raises `UnsupportedObjectError`."""
    return _Library(objects).image()


class _Library:
    """One library: sections of the objects, and the tables, stubs and headers around them."""

    def __init__(self, objects: list[ObjectFile]) -> None:
        """Resolves the references between the objects, and collects the symbols of other libraries.

        ``foreign`` has the symbols that no object defines, and ``stubs`` the foreign functions that are called.
        ``table`` has the symbols whose addresses the loader fills in.
        """
        self.sections = [section for object_file in objects for section in object_file.sections]
        self.definitions = _definitions(objects)
        self.relocations = [self._resolve(entry) for object_file in objects for entry in object_file.relocations]
        self.foreign: dict[Any, Symbol] = {}
        self.stubs: dict[Any, Symbol] = {}
        self.table: dict[Any, Symbol] = {}
        for entry in self.relocations:
            key = _symbol_key(entry.symbol)
            if not entry.symbol.defined:
                self.foreign[key] = entry.symbol
                if entry.kind in RELATIVE:
                    self.stubs[key] = entry.symbol
            if entry.kind in THROUGH_TABLE:
                self.table[key] = entry.symbol
        self.table |= self.stubs
        self.exports = [symbol for symbol in self.definitions.values() if symbol.visibility == STV_DEFAULT]
        foreign_names = [symbol.name for symbol in self.foreign.values()]
        exported_names = [symbol.name for symbol in self.exports]
        # The entry at index 0 of the symbol table is empty.
        self.symbol_indices = {name: index for index, name in enumerate(foreign_names, start=1)}
        self.strings = _StringTable([*foreign_names, *exported_names, NEEDED_LIBRARY])
        self._make_own_sections()

    def _resolve(self, entry: Relocation) -> Relocation:
        """Returns a relocation that refers to the definition of its symbol, which may be in another object.

        Raises:
          UnsupportedObjectError: this kind of relocation isn't supported.
        """
        if entry.kind not in KNOWN:
            raise UnsupportedObjectError(f"relocation kind {entry.kind} against {entry.symbol.name or 'a section'}")
        if entry.symbol.binding == STB_LOCAL:
            return entry
        definition = self.definitions.get(entry.symbol.name, entry.symbol)
        return Relocation(entry.section, entry.offset, entry.kind, definition, entry.addend)

    def _make_own_sections(self) -> None:
        """Creates the sections that the linker itself adds: symbol, string and hash tables, relocations and stubs.

        Only their sizes are known here. Their contents are written when all addresses are known.
        """
        symbol_count = 1 + len(self.foreign) + len(self.exports)
        absolute_count = sum(entry.kind == R_64 for entry in self.relocations)
        self.symbols_section = _new_section(SYMBOL.size * symbol_count)
        self.strings_section = _new_section(len(self.strings.data))
        # Numbers of 4 bytes: the bucket count, the symbol count, one bucket, and a link to the next symbol for each
        # one.
        self.hash_section = _new_section(4 * (3 + symbol_count))
        self.rela_section = _new_section(RELA.size * (len(self.table) + absolute_count))
        self.stub_section = _new_section(STUB_SIZE * len(self.stubs), SHF_EXECINSTR, 16)
        self.table_section = _new_section(POINTER_SIZE * len(self.table), SHF_WRITE)
        self.dynamic_section = _new_section(16 * DYNAMIC_ENTRIES, SHF_WRITE)

    def image(self) -> bytes:
        """Lays out the sections of the shared library, and returns the content of its file.

        The layout comes first, since relocations and tables contain addresses.
        """
        ends = self._lay_out()
        _constants_end, _code_end, data_end, _memory_end = ends
        image = bytearray(data_end)  # zero-filled sections aren't in the file
        for section in self.sections:
            image[section.address : section.address + len(section.data)] = section.data
        self._write_relocated(image)
        self._write_tables(image)
        _write_headers(image, self.starts, ends, self.dynamic_section)
        return bytes(image)

    def _lay_out(self) -> tuple[int, int, int, int]:
        """Assigns addresses to all sections, in three segments: read-only, code and data.

        Returns the ends of the three segments in the file, and the end of the data in memory. In memory, zero-filled
        sections follow the data.
        """
        loader_tables = [self.symbols_section, self.strings_section, self.hash_section, self.rela_section]
        constants = [section for section in self.sections if not section.writable and not section.executable]
        code = [section for section in self.sections if section.executable]
        writable = [section for section in self.sections if section.writable and not section.zero_filled]
        # One table for the loader: the constructors of all objects must follow one another.
        data = sorted(writable, key=lambda section: not section.lists_constructors)
        zeros = [section for section in self.sections if section.writable and section.zero_filled]
        header_end = ELF_HEADER.size + PROGRAM_HEADER.size * PROGRAM_HEADERS
        constants_end = _assign_addresses([*loader_tables, *constants], header_end)
        code_start = round_up(constants_end, PAGE)
        code_end = _assign_addresses([*code, self.stub_section], code_start)
        data_start = round_up(code_end, PAGE)
        data_end = _assign_addresses([*data, self.table_section, self.dynamic_section], data_start)
        self.starts = (0, code_start, data_start)
        return constants_end, code_end, data_end, _assign_addresses(zeros, data_end)

    def _table_slot(self, symbol: Symbol) -> int:
        """Returns the address of a symbol's slot in the table of addresses that the loader fills."""
        return self.table_section.address + POINTER_SIZE * self.table_order[_symbol_key(symbol)]

    def _stub_address(self, symbol: Symbol) -> int:
        """Returns the address of the stub that calls a function of another library."""
        return self.stub_section.address + STUB_SIZE * self.stub_order[_symbol_key(symbol)]

    def _write_relocated(self, image: bytearray) -> None:
        """Applies the relocations of the objects to the image, and writes the stubs of functions in other libraries.

        Addresses that only the loader knows become entries in `loader_relocations`.
        """
        self.table_order = {key: index for index, key in enumerate(self.table)}
        self.stub_order = {key: index for index, key in enumerate(self.stubs)}
        self.loader_relocations = [self._table_entry(symbol) for symbol in self.table.values()]
        for entry in self.relocations:
            self._apply(image, entry)
        for symbol in self.stubs.values():
            self._write_stub(image, symbol)

    def _table_entry(self, symbol: Symbol) -> tuple[int, int, int]:
        """Returns the loader relocation (address, info, addend) that fills a symbol's slot in the address table."""
        if symbol.defined:
            return self._table_slot(symbol), R_RELATIVE, symbol.address
        return self._table_slot(symbol), self.symbol_indices[symbol.name] << 32 | R_GLOB_DAT, 0

    def _apply(self, image: bytearray, entry: Relocation) -> None:
        """Writes the relative address that a relocation specifies to the image.

        For an absolute address, which only the loader knows, a relocation for the loader is added.
        """
        if entry.kind == R_64:
            self.loader_relocations.append(self._loader_relocation(entry))
            return
        if entry.kind == R_PC64:
            number_format, target = "<q", entry.symbol.address
        else:
            number_format, target = "<i", self._call_target(entry)
        struct.pack_into(number_format, image, entry.place, target + entry.addend - entry.place)

    def _call_target(self, entry: Relocation) -> int:
        """Returns the address that a relative relocation refers to: a slot, a symbol, or a stub."""
        if entry.kind in THROUGH_TABLE:
            return self._table_slot(entry.symbol)
        return entry.symbol.address if entry.symbol.defined else self._stub_address(entry.symbol)

    def _loader_relocation(self, entry: Relocation) -> tuple[int, int, int]:
        """Returns the loader relocation (address, info, addend) that writes a symbol's absolute address."""
        if entry.symbol.defined:
            return entry.place, R_RELATIVE, entry.symbol.address + entry.addend
        return entry.place, self.symbol_indices[entry.symbol.name] << 32 | R_64, entry.addend

    def _write_stub(self, image: bytearray, symbol: Symbol) -> None:
        """Writes the stub of a function of another library: an indirect jump through the function's address slot.

        The remaining bytes are trap instructions.
        """
        address = self._stub_address(symbol)
        jump_size = 6
        # The operand of the jump is relative to the next instruction.
        operand = self._table_slot(symbol) - (address + jump_size)
        jump = b"\xff\x25" + struct.pack("<i", operand)
        image[address : address + STUB_SIZE] = jump.ljust(STUB_SIZE, b"\xcc")

    def _write_tables(self, image: bytearray) -> None:
        """Writes the tables that the dynamic loader reads: symbols, strings, relocations and the dynamic section."""
        self._write_symbols(image)
        strings_start = self.strings_section.address
        image[strings_start : strings_start + len(self.strings.data)] = self.strings.data
        for index, entry in enumerate(self.loader_relocations):
            RELA.pack_into(image, self.rela_section.address + RELA.size * index, *entry)
        for index, (tag, value) in enumerate(self._dynamic_entries()):
            struct.pack_into("<QQ", image, self.dynamic_section.address + 16 * index, tag, value)

    def _write_symbols(self, image: bytearray) -> None:
        """Writes the dynamic symbol table (symbols of other libraries, then exports) and its hash table."""
        # The fields of an entry: name, info (binding and kind), visibility, section index, address and size.
        undefined_section, any_section = 0, 1
        foreign = [(symbol.name, symbol.binding << 4, 0, undefined_section, 0, 0) for symbol in self.foreign.values()]
        exported = [
            (symbol.name, STB_GLOBAL << 4 | symbol.kind, 0, any_section, symbol.address, symbol.size)
            for symbol in self.exports
        ]
        # The entry at index 0 is empty.
        for index, (name, *fields) in enumerate([*foreign, *exported], start=1):
            offset = self.symbols_section.address + SYMBOL.size * index
            SYMBOL.pack_into(image, offset, self.strings.offsets[name], *fields)
        count = 1 + len(foreign) + len(exported)
        # One hash bucket with all symbols in one chain: the loader looks up only a few.
        chain = [0, *range(2, count), 0][:count]
        struct.pack_into(f"<3I{count}I", image, self.hash_section.address, 1, count, int(count > 1), *chain)

    def _dynamic_entries(self) -> list[tuple[int, int]]:
        """Returns the (tag, value) entries of the dynamic section, which give the loader the addresses of the other tables.

        The loader finds everything else from this section, which a program header locates.
        """
        return [
            (DT_NEEDED, self.strings.offsets[NEEDED_LIBRARY]),
            (DT_HASH, self.hash_section.address),
            (DT_STRTAB, self.strings_section.address),
            (DT_SYMTAB, self.symbols_section.address),
            (DT_STRSZ, len(self.strings.data)),
            (DT_SYMENT, SYMBOL.size),
            (DT_RELA, self.rela_section.address),
            (DT_RELASZ, RELA.size * len(self.loader_relocations)),
            (DT_RELAENT, RELA.size),
            *self._constructor_entries(),
            (DT_NULL, 0),
        ]

    def _constructor_entries(self) -> list[tuple[int, int]]:
        """Returns the entries of the dynamic section that locate the table of constructors, or none without constructors.

        LLVM leaves TVM's constructor, which does nothing, in code that it doesn't optimize.
        """
        tables = [section for section in self.sections if section.lists_constructors]
        if not tables:
            return []
        return [(DT_INIT_ARRAY, tables[0].address), (DT_INIT_ARRAYSZ, sum(table.size for table in tables))]


class _StringTable:
    """A table of names, each followed by a zero byte, and the offset of each."""

    def __init__(self, names: list[str]) -> None:
        """Builds the string table of an ELF file: all names, each ending with a zero byte.

        ELF reserves offset 0 for an empty name. ``offsets`` has the offset of each name.
        """
        self.data = b"\0"
        self.offsets: dict[str, int] = {}
        parts = [b"\0"]
        offset = 1
        for name in names:
            self.offsets[name] = offset
            parts.append(name.encode() + b"\0")
            offset += len(parts[-1])
        self.data = b"".join(parts)


def _definitions(objects: list[ObjectFile]) -> dict[str, Symbol]:
    """Returns the global and weak symbols that objects define, by name.

    The relocations of one object refer to definitions in another by these names. Local symbols are visible in their own
    object only.
    """
    definitions: dict[str, Symbol] = {}
    for object_file in objects:
        for symbol in object_file.symbols:
            if symbol.binding != STB_LOCAL and symbol.defined:
                _add_definition(definitions, symbol, object_file)
    return definitions


def _add_definition(definitions: dict[str, Symbol], symbol: Symbol, object_file: ObjectFile) -> None:
    """Records the definition of a symbol; a global definition replaces a weak one.

    A system's linker resolves names in the same way.

    Args:
      definitions: the definitions so far, by name.
      symbol: the defined symbol.
      object_file: the object file that defines it.

    Raises:
      ValueError: the symbol has two global definitions.
    """
    known = definitions.get(symbol.name)
    if known is None or (known.binding == STB_WEAK and symbol.binding == STB_GLOBAL):
        definitions[symbol.name] = symbol
    elif known.binding == symbol.binding == STB_GLOBAL:
        raise ValueError(
            f"link: symbol {symbol.name} is defined twice, the second time in {object_file.path}; rename one"
        )


def _symbol_key(symbol: Symbol) -> str | int:
    """Returns what identifies a symbol in the library: its name, unless it is local to an object."""
    return id(symbol) if symbol.binding == STB_LOCAL else symbol.name


def _new_section(size: int, flags: int = 0, align: int = 8) -> Section:
    """Returns a section of the library's own, of a size, to be filled later."""
    return Section("", SHT_PROGBITS, flags, align, size)


def _assign_addresses(sections: list[Section], start: int) -> int:
    """Places sections one after another from an address; returns the end of the last."""
    for section in sections:
        section.address = round_up(start, section.align)
        start = section.address + section.size
    return start


def _write_headers(
    image: bytearray, starts: tuple[int, int, int], ends: tuple[int, int, int, int], dynamic: Section
) -> None:
    """Writes the ELF header and the program headers of a shared library.

    Args:
      starts: the addresses of the read-only segment, the code and the data.
      ends: their ends in the file, and the end of the data in memory.
      dynamic: the dynamic section.
    """
    header = ElfHeader(
        identification=b"\x7fELF\x02\x01\x01",
        kind=ET_DYN,
        machine=X86_64,
        version=1,
        entry_point=0,
        program_headers_offset=ELF_HEADER.size,
        section_headers_offset=0,
        flags=0,
        header_size=ELF_HEADER.size,
        program_header_size=PROGRAM_HEADER.size,
        program_header_count=PROGRAM_HEADERS,
        section_header_size=SECTION_HEADER.size,
        section_header_count=0,
        section_names_index=0,
    )
    ELF_HEADER.pack_into(image, 0, *astuple(header))
    read_only, code, data = starts
    read_only_end, code_end, data_end, memory_end = ends
    # Type, flags, offset, sizes in file and memory, alignment.
    program_headers = [
        (PT_LOAD, PF_R, read_only, read_only_end, read_only_end, PAGE),
        (PT_LOAD, PF_R | PF_X, code, code_end - code, code_end - code, PAGE),
        (PT_LOAD, PF_R | PF_W, data, data_end - data, memory_end - data, PAGE),
        (PT_DYNAMIC, PF_R | PF_W, dynamic.address, dynamic.size, dynamic.size, 8),
        (PT_GNU_STACK, PF_R | PF_W, 0, 0, 0, 8),
    ]
    for index, (kind, flags, start, in_file, in_memory, align) in enumerate(program_headers):
        # The offset in the file is also the virtual and the physical address.
        fields = (kind, flags, start, start, start, in_file, in_memory, align)
        PROGRAM_HEADER.pack_into(image, ELF_HEADER.size + PROGRAM_HEADER.size * index, *fields)
