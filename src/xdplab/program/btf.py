"""Types of an object: reads section .BTF.

The layout is that of the kernel's include/uapi/linux/btf.h. Type 0 is `void`. Chains of
types are followed to a fixed depth, so that cycles in a damaged file end in an error.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from xdplab.errors import ObjectError
from xdplab.program.bounded import Region, StringTable
from xdplab.program.spec import Encoding

INT, PTR, ARRAY, STRUCT, UNION, ENUM, FWD, TYPEDEF = 1, 2, 3, 4, 5, 6, 7, 8
VOLATILE, CONST, RESTRICT, FUNC, FUNC_PROTO, VAR, DATASEC = 9, 10, 11, 12, 13, 14, 15
FLOAT, DECL_TAG, TYPE_TAG, ENUM64 = 16, 17, 18, 19

MAX_SIZE = 4 << 20
MAX_TYPES = 1 << 16
MAX_VARIABLES = 1 << 14

_MAGIC = 0xEB9F
_MAX_DEPTH = 32
_HEADER = struct.Struct("<HBBIIIII")
_TYPE = struct.Struct("<III")
_WORD = struct.Struct("<I")
_TRIPLE = struct.Struct("<III")
_ENUM_VALUE = struct.Struct("<Ii")

# What follows a type's 12 bytes: a fixed part, and a part for each of its `vlen` members.
FIXED_EXTRA = {INT: 4, ARRAY: 12, VAR: 4, DECL_TAG: 4}
MEMBER_EXTRA = {STRUCT: 12, UNION: 12, ENUM: 8, FUNC_PROTO: 8, DATASEC: 12, ENUM64: 12}

_QUALIFIERS = {VOLATILE: "volatile", CONST: "const", RESTRICT: "restrict"}
_TRANSPARENT = {TYPEDEF, VOLATILE, CONST, RESTRICT, TYPE_TAG}


class BtfType(NamedTuple):
    """One type. `target` is a size in bytes or a type's number, by kind; `extra` is the
    offset in the type section of what follows the type's 12 bytes."""

    kind: int
    name_offset: int
    member_count: int
    flag: bool
    target: int
    extra: int


class Member(NamedTuple):
    """A member of a structure or union; `offset_bytes` of its first whole byte."""

    name: str
    type: int
    offset_bytes: int


class Variable(NamedTuple):
    """An entry of a data section: a variable, or (in .ksyms) a function."""

    name: str
    type: int
    offset_bytes: int
    size_bytes: int
    is_function: bool


class Btf:
    """All types of one object. Every method raises ObjectError on damaged input."""

    def __init__(self, region: Region) -> None:
        if len(region) > MAX_SIZE:
            raise ObjectError(f"{region.what} has {len(region)} bytes; at most {MAX_SIZE} are read")
        magic, _, _, header_size, type_offset, type_size, string_offset, string_size = (
            region.unpack(_HEADER, 0, "the BTF header")
        )
        if magic != _MAGIC:
            raise ObjectError(f"{region.what} does not begin with BTF's magic number")
        self._types = Region(
            region.take(header_size + type_offset, type_size, "the types"), "the BTF types"
        )
        self.strings = StringTable(
            Region(
                region.take(header_size + string_offset, string_size, "the strings"),
                "the BTF strings",
            )
        )
        self._all = self._parse()

    def type(self, number: int) -> BtfType:
        """The type of that number, from 1; `void` (0) is none and an error."""
        if not 0 < number < len(self._all):
            raise ObjectError(f"its BTF refers to type {number} of {len(self._all)}")
        return self._all[number]

    def name(self, btf_type: BtfType) -> str:
        """Its name, "" if it has none."""
        return self.strings.at(btf_type.name_offset)

    def resolve(self, number: int) -> BtfType | None:
        """The type without typedefs and qualifiers; None for `void`."""
        for _ in range(_MAX_DEPTH):
            if number == 0:
                return None
            found = self.type(number)
            if found.kind not in _TRANSPARENT:
                return found
            number = found.target
        raise ObjectError("its BTF has a cycle, or types nested too deeply")

    def size_bytes(self, number: int) -> int:
        """`sizeof`; 0 for `void` and functions."""
        factor = 1
        for _ in range(_MAX_DEPTH):
            found = self.resolve(number)
            if found is None:
                return 0
            if found.kind == PTR:
                return 8 * factor
            if found.kind in (INT, STRUCT, UNION, ENUM, ENUM64, FLOAT):
                return found.target * factor
            if found.kind != ARRAY:
                return 0
            number, _, length = self.array(found)
            factor *= length
        raise ObjectError("its BTF has a cycle, or types nested too deeply")

    def array(self, btf_type: BtfType) -> tuple[int, int, int]:
        """Element type, index type and length of an array."""
        element, index, length = self._types.unpack(_TRIPLE, btf_type.extra, "an array")
        return element, index, length

    def members(self, btf_type: BtfType) -> list[Member]:
        """The members of a structure or union; none for other kinds."""
        if btf_type.kind not in (STRUCT, UNION):
            return []
        # With the flag, the upper 8 bits of the offset are a bit field's width.
        mask = 0xFFFFFF if btf_type.flag else 0xFFFFFFFF
        return [
            Member(self.strings.at(name), number, (offset & mask) // 8)
            for name, number, offset in self._types.records(
                _TRIPLE, btf_type.extra, btf_type.member_count, "members"
            )
        ]

    def enum_value(self, btf_type: BtfType) -> int:
        """The first value of an enum, as map definitions use it for constants."""
        if btf_type.member_count == 0:
            raise ObjectError("its BTF has an empty enum where a constant is expected")
        if btf_type.kind == ENUM:
            _, value = self._types.unpack(_ENUM_VALUE, btf_type.extra, "an enum")
            return int(value) & 0xFFFFFFFF
        _, low, high = self._types.unpack(_TRIPLE, btf_type.extra, "an enum")
        return int(low) | int(high) << 32

    def data_sections(self) -> dict[str, list[Variable]]:
        """The variables of every data section, by its name."""
        found: dict[str, list[Variable]] = {}
        left = MAX_VARIABLES
        for btf_type in self._all:
            if btf_type.kind == DATASEC:
                left -= btf_type.member_count
                if left < 0:
                    raise ObjectError(f"its BTF has more than {MAX_VARIABLES} variables")
                entries = self._types.records(
                    _TRIPLE, btf_type.extra, btf_type.member_count, "a data section"
                )
                found[self.name(btf_type)] = [self._variable(*entry) for entry in entries]
        return found

    def encoding(self, number: int) -> Encoding:
        """How a value of the type is written from Python."""
        found = self.resolve(number)
        if found is None:
            return "bytes"
        if found.kind == INT:
            (word,) = self._types.unpack(_WORD, found.extra, "an integer")
            bits = word >> 24 & 0xF
            return "bool" if bits & 4 else "int" if bits & 1 else "uint"
        if found.kind in (ENUM, ENUM64):
            return "int" if found.flag else "uint"
        if found.kind == FLOAT and found.target in (4, 8):
            return "float"
        return "uint" if found.kind == PTR else "bytes"

    def spelling(self, number: int) -> str:
        """The type as C writes it, such as `const volatile __s16` or `struct flow *[4]`."""
        inner = ""
        qualifiers: list[str] = []
        for _ in range(_MAX_DEPTH):
            found = self.type(number) if number else None
            if found is None or found.kind not in (*_QUALIFIERS, TYPE_TAG, PTR, ARRAY, FUNC_PROTO):
                gap = " " if inner.startswith(("*", "(")) else ""
                return " ".join((*qualifiers, self._base_name(found))) + gap + inner
            if found.kind in _QUALIFIERS:
                qualifiers.append(_QUALIFIERS[found.kind])
            elif found.kind == PTR:
                # Qualifiers met before the pointer are the pointer's own: `*const`.
                inner = "*" + " ".join((*qualifiers, *([inner] * bool(inner))))
                qualifiers = []
            elif found.kind in (ARRAY, FUNC_PROTO):
                inner = f"({inner})" if inner.startswith("*") else inner
                length = self.array(found)[2] if found.kind == ARRAY else 0
                inner += f"[{length}]" if found.kind == ARRAY else "(...)"
            number = self.array(found)[0] if found.kind == ARRAY else found.target
        raise ObjectError("its BTF has a cycle, or types nested too deeply")

    def _base_name(self, found: BtfType | None) -> str:
        if found is None:
            return "void"
        name = self.name(found)
        keyword = {STRUCT: "struct", UNION: "union", ENUM: "enum", ENUM64: "enum"}.get(found.kind)
        if found.kind == FWD:
            keyword = "union" if found.flag else "struct"
        if keyword is None:
            return name
        return f"{keyword} {name or '{...}'}"

    def _variable(self, number: int, offset: int, size: int) -> Variable:
        entry = self.type(number)
        if entry.kind not in (VAR, FUNC):
            raise ObjectError(f"its BTF has a data section with an entry of kind {entry.kind}")
        return Variable(self.name(entry), entry.target, offset, size, entry.kind == FUNC)

    def _parse(self) -> list[BtfType]:
        found = [BtfType(0, 0, 0, False, 0, 0)]
        offset = 0
        end = len(self._types)
        while offset < end:
            name, info, target = self._types.unpack(_TYPE, offset, "a type")
            kind = info >> 24 & 0x1F
            if not INT <= kind <= ENUM64:
                raise ObjectError(f"its BTF has a type of the unknown kind {kind}")
            count = info & 0xFFFF
            extra = offset + _TYPE.size
            offset = extra + FIXED_EXTRA.get(kind, 0) + MEMBER_EXTRA.get(kind, 0) * count
            if offset > end:
                raise ObjectError("its BTF types are truncated")
            found.append(BtfType(kind, name, count, bool(info >> 31), target, extra))
            if len(found) > MAX_TYPES:
                raise ObjectError(f"its BTF has more than {MAX_TYPES} types")
        return found
