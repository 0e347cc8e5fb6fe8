"""A fault of a checked or counted program, in numbers and in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from xdplab.program.spec import LineInfo
from xdplab.user.abi import Fault
from xdplab.user.watchdog import LIMIT_S

_FAULT_TEXTS: Mapping[Fault, str] = {
    Fault.PACKET: "outside of the packet's linear part",
    Fault.STACK: "outside of the stack",
    Fault.MAP_VALUE: "outside of a map's value",
    Fault.DATA: "outside of its data section, or to read-only data",
    Fault.CTX: "outside of the context",
    Fault.NULL: "at a null pointer",
    Fault.OTHER: "outside of all memory that it may use",
}


@dataclass(frozen=True, slots=True)
class FaultRecord:
    """Why a checked or counted program was ended; its retval is then XDP_ABORTED.

    `program` is the one that was running (behind tail calls: another than was called), `slot` the
    instruction slot in it linked, `place` both in words with the source line, `line` that of the
    object if it has any. `budget` is how many instructions a packet may take.
    `address` and `size_bytes` are what was accessed, `low` and `high`
    (excluded) where it should have been, 0 where that is not one range. `helper` names the helper
    or kfunc that was called, "" if the program itself accessed memory.
    """

    kind: Fault
    program: str
    slot: int
    place: str
    line: LineInfo | None
    address: int
    size_bytes: int
    low: int
    high: int
    helper: str
    budget: int

    @property
    def message(self) -> str:
        """One line that says what happened where."""
        by = f"{self.helper} was given" if self.helper else "accessed"
        match self.kind:
            case Fault.BUDGET:
                what = (
                    f"it did not end: a packet may take {self.budget:,} instructions and "
                    f"{LIMIT_S:g} s"
                )
            case Fault.DEPTH:
                what = "too many calls are open"
            case Fault.HELPER:
                what = f"{self.helper or 'a helper'} was given what it cannot take"
            case kind:
                what = f"{by} {self.size_bytes} bytes {_FAULT_TEXTS[kind]}{self._distance()}"
        return f"{self.place}: {what}"

    def _distance(self) -> str:
        if self.low >= self.high:
            return ""
        return f" (at offset {self.address - self.low} of {self.high - self.low} bytes)"
