"""One function under translation: what its parts share, and how they give up on a packet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from xdplab.program.spec import MapSpec
from xdplab.user.abi import Fault
from xdplab.user.link import LinkedProgram
from xdplab.user.options import Options
from xdplab.user.pointer_types import Type, Types
from xdplab.user.translate_ir import Emitter


@dataclass(slots=True)
class Symbols:
    """Names outside the program that its code refers to."""

    maps: set[str] = field(default_factory=set)
    sections: set[str] = field(default_factory=set)
    functions: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Scope:
    """One function under translation; `slot` is the instruction's, `types` before it by slot.

    `maps` and `section_bytes` are the object's maps and the sizes of its data sections.
    """

    program: LinkedProgram
    options: Options
    emitter: Emitter
    types: Mapping[int, Types]
    maps: Mapping[str, MapSpec]
    section_bytes: Mapping[str, int]
    symbols: Symbols
    is_entry: bool
    slot: int = 0

    def type_of(self, register: int) -> Type | None:
        """The type of a register before the present instruction."""
        return self.types[self.slot][register]

    def map_symbol(self, name: str) -> str:
        """The symbol of a map's struct user_map."""
        self.symbols.maps.add(name)
        return f'@"map:{name}"'

    def section_symbol(self, name: str) -> str:
        """The symbol of a data section's bytes."""
        self.symbols.sections.add(name)
        return f'@"data:{name}"'

    def fail(
        self, kind: Fault, address: str = "0", size: str = "0", low: str = "0", high: str = "0"
    ) -> None:
        """Note a fault and leave the function; ends the block."""
        numbers = ", ".join(f"i64 {number}" for number in (address, size, low, high))
        self.emitter.do(
            f"call void @fault(ptr %state, i32 {kind.value}, i32 {self.slot}, {numbers})"
        )
        self.emitter.do("br label %out")

    def require(
        self,
        condition: str,
        kind: Fault,
        address: str = "0",
        size: str = "0",
        low: str = "0",
        high: str = "0",
    ) -> None:
        """Go on where `condition` (i1) holds; else fail."""
        fine, wrong = self.emitter.new_label("fine"), self.emitter.new_label("wrong")
        self.emitter.branch(condition, fine, wrong, likely=True)
        self.emitter.begin(wrong)
        self.fail(kind, address, size, low, high)
        self.emitter.begin(fine)
