"""How a program is translated."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Mode(Enum):
    """What a translated program does besides its work.

    TIMED: nothing. CHECKED: every address is checked before it is used, and the instruction budget
    is kept. COUNTED: every basic block is counted, and the budget is kept.
    """

    TIMED = "timed"
    CHECKED = "checked"
    COUNTED = "counted"


@dataclass(frozen=True, slots=True)
class Options:
    """A mode, and what a timed program may leave out.

    `inline_helpers`: helpers become part of the program, where LLVM may do away with most of their
    cost; by default they are called, as in the kernel. `is_faithful` (timed mode): every load and
    store outside of the stack, every turn of a loop and every call of a subprogram takes place.
    Without it LLVM may drop what has no effect: that is faster, and no measure of the program.

    `quick` (the other modes): compiled in a third of the time to code that takes two to four times
    as long, for programs that see few packets.
    """

    mode: Mode = Mode.TIMED
    inline_helpers: bool = False
    faithful: bool = True
    quick: bool = False

    @property
    def checks(self) -> bool:
        """Whether addresses are checked."""
        return self.mode is Mode.CHECKED

    @property
    def counts(self) -> bool:
        """Whether blocks are counted."""
        return self.mode is Mode.COUNTED

    @property
    def guards(self) -> bool:
        """Whether the instruction budget and the depth of calls are kept."""
        return self.mode is not Mode.TIMED

    @property
    def is_faithful(self) -> bool:
        """Whether LLVM must leave accesses and loops alone."""
        return self.faithful and self.mode is Mode.TIMED

    @property
    def is_quick(self) -> bool:
        """Whether compiling fast matters more than fast code."""
        return self.quick and self.guards
