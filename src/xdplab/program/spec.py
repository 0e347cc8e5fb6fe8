"""What an object file says, as inert values: nothing here touches the kernel or a file.

Instruction indices count 8-byte slots from the start of their own function, so that the
two slots of a 64-bit load have two indices, as in jumps and in the verifier's log.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from xdplab.errors import UsageError

Encoding = Literal["int", "uint", "bool", "float", "bytes"]
RelocationKind = Literal["map", "data", "extern", "call", "func"]
ExternKind = Literal["kfunc", "ksym", "kconfig", "unknown"]

INSN_SIZE = 8


@dataclass(frozen=True, slots=True)
class LineInfo:
    """From the instruction `insn_index` on, the code is that of `file`:`line`.

    `file` is as the compiler was told it, relative for the laboratory's own objects;
    `line` and `column` count from 1, a column of 0 is unknown; `text` is the source line.
    """

    insn_index: int
    file: str
    line: int
    column: int
    text: str


@dataclass(frozen=True, slots=True)
class Relocation:
    """The instruction at `insn_index` refers to `symbol`, which a loader must resolve.

    kind      the instruction            symbol                     addend
    map       64-bit load                map                        0
    data      64-bit load                variable, "" if unnamed    byte offset in `section`
    extern    64-bit load, kfunc call    what the kernel provides   0
    call      call of a function         function                   0
    func      64-bit load                function, as a callback    0

    Calls are listed even where the object needs no relocation for them, so `symbol` is
    all that is needed to link. `section` is the section that holds the symbol.
    """

    insn_index: int
    symbol: str
    section: str
    addend: int
    kind: RelocationKind


@dataclass(frozen=True, slots=True)
class ProgramSpec:
    """One function: an entry program, or a subprogram that others call.

    `insns` is `struct bpf_insn[insn_count]`, little-endian, 8 bytes each, unrelocated.
    `section` is as in SEC(), such as "xdp" or "xdp.frags"; ".text" for subprograms.
    `has_core_relocations`: the kernel's own types must be known to load it. `core_misfit` names a
    structure among them that has the same layout everywhere, but another one in this object: what
    was compiled is wrong without relocation.
    """

    name: str
    section: str
    insns: bytes
    line_info: tuple[LineInfo, ...]
    relocations: tuple[Relocation, ...]
    is_subprogram: bool
    has_core_relocations: bool = False
    core_misfit: str = ""

    @property
    def insn_count(self) -> int:
        """Number of 8-byte instruction slots."""
        return len(self.insns) // INSN_SIZE

    @property
    def is_xdp(self) -> bool:
        """Whether its section says that it is an XDP program.

        libbpf's "xdp", "xdp.frags" and "xdp/...", with "?" where it is not loaded at first; names
        such as "xdp_drop", which libbpf took before 1.0; and "prog", which `ip link` looks for.
        """
        return self.section.removeprefix("?").startswith("xdp") or self.section == "prog"

    @property
    def takes_frags(self) -> bool:
        """Whether it says that it can be given frames of several buffers (BPF_F_XDP_HAS_FRAGS)."""
        return self.section.removeprefix("?").startswith("xdp.frags")


@dataclass(frozen=True, slots=True)
class MapSpec:
    """One map of section .maps, as BTF describes it.

    `type` is the number of enum bpf_map_type and `type_name` its name in lower case
    without the prefix ("percpu_array"), or the number as text where it is newer than this
    table. Sizes are in bytes; `flags` are BPF_F_*; `pinning` is 0 (none) or 1 (by name);
    `extra` is map_extra. `inner` describes the maps of a map of maps; `values` gives the
    maps or programs that the source puts in its slots, by index.
    """

    name: str
    type: int
    type_name: str
    key_size: int
    value_size: int
    max_entries: int
    flags: int = 0
    pinning: int = 0
    extra: int = 0
    inner: MapSpec | None = None
    values: Mapping[int, str] | None = None


@dataclass(frozen=True, slots=True)
class GlobalSpec:
    """One global variable: `size_bytes` at `offset_bytes` of data section `section`.

    `type_name` is the type's C spelling. `encoding` says how a value is written: enums and
    pointers are integers, structures and arrays are bytes. `initial` has
    `size_bytes` bytes.
    """

    name: str
    section: str
    offset_bytes: int
    size_bytes: int
    type_name: str
    encoding: Encoding
    initial: bytes

    def encode(self, value: int | float | bytes) -> bytes:
        """`value` as the variable's `size_bytes` bytes, little-endian.

        Raises UsageError where it is of the wrong kind or does not fit.
        """
        try:
            if self.encoding == "bytes":
                if isinstance(value, bytes) and len(value) == self.size_bytes:
                    return value
            elif self.encoding == "float":
                if not isinstance(value, bytes):
                    return struct.pack(self._float_layout(), value)
            elif isinstance(value, int):
                if self.encoding == "bool" and value not in (0, 1):
                    raise OverflowError
                return value.to_bytes(self.size_bytes, "little", signed=self.encoding == "int")
        except (OverflowError, struct.error):
            pass
        shown = f"{len(value)} bytes" if isinstance(value, bytes) else repr(value)
        raise UsageError(
            f"Setting the variable {self.name} to {shown}: its type is {self.type_name}. "
            f"Give {self._wanted()}"
        )

    def decode(self, data: bytes) -> int | float | bytes:
        """The value that `data`, `size_bytes` bytes, stands for; the inverse of `encode`.

        A bool is 1 whatever its non-zero byte.
        """
        if len(data) != self.size_bytes:
            raise UsageError(
                f"Reading the variable {self.name}: {len(data)} bytes were given, but its "
                f"type {self.type_name} has {self.size_bytes}"
            )
        if self.encoding == "bytes":
            return data
        if self.encoding == "float":
            (number,) = struct.unpack(self._float_layout(), data)
            return float(number)
        number = int.from_bytes(data, "little", signed=self.encoding == "int")
        return int(number != 0) if self.encoding == "bool" else number

    def _float_layout(self) -> str:
        return {2: "<e", 4: "<f", 8: "<d"}[self.size_bytes]

    def _wanted(self) -> str:
        bits = 8 * self.size_bytes
        return {
            "bytes": f"exactly {self.size_bytes} bytes",
            "float": f"a number that {bits} bits can hold",
            "bool": "0 or 1",
            "int": f"an integer from {-(1 << bits - 1)} to {(1 << bits - 1) - 1}",
            "uint": f"an integer from 0 to {(1 << bits) - 1}",
        }[self.encoding]


@dataclass(frozen=True, slots=True)
class ExternSpec:
    """A symbol that the kernel must provide; a `weak` one may be absent."""

    name: str
    kind: ExternKind
    weak: bool


@dataclass(frozen=True, slots=True)
class ObjectSpec:
    """A whole object file.

    `raw` is the file; `license` the text of section "license" ("" if none). `programs` and
    `subprograms` are by function name, `maps`, `globals` and `externs` by symbol name.
    `sections` holds each data section's initial bytes by name (.bss as zeros).
    """

    name: str
    raw: bytes
    license: str
    byte_order: Literal["little"]
    programs: Mapping[str, ProgramSpec]
    subprograms: Mapping[str, ProgramSpec]
    maps: Mapping[str, MapSpec]
    globals: Mapping[str, GlobalSpec]
    sections: Mapping[str, bytes]
    externs: Mapping[str, ExternSpec]
