"""A file of native functions as an inert spec: which one, and how its branches are compiled.

The functions are C in xdplab/native, compiled to LLVM IR when the package is built. The rest is
decided when they are loaded, so that one source is measured with and without mitigations.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class CodeVariant:
    """How returns and indirect branches of native functions are compiled (x86-64).

    `returns`: "thunk" jumps to a return that stands alone (-mfunction-return=thunk-extern, as
    kernels do); "safe" has that return predicted wrongly on purpose, as against SRSO.
    `branches`: "thunk" goes through a jump that stands alone; "retpoline" is the retpoline. Either
    also does without jump tables, as kernels do.
    """

    returns: Literal["plain", "thunk", "safe"] = "plain"
    branches: Literal["plain", "thunk", "retpoline"] = "plain"

    @property
    def name(self) -> str:
        """Stable name, for results: "plain", "return-thunk", "safe-return+retpoline", ..."""
        names = {"thunk": "return-thunk", "safe": "safe-return"}
        parts = [names[self.returns]] if self.returns != "plain" else []
        if self.branches != "plain":
            parts.append({"thunk": "indirect-thunk"}.get(self.branches, self.branches))
        return "+".join(parts) or "plain"


PLAIN = CodeVariant()


@dataclass(frozen=True, slots=True)
class NativeSpec:
    """The functions of xdplab/native/`source`.c in one variant; a subject's `object`."""

    source: str
    variant: CodeVariant = PLAIN

    @property
    def name(self) -> str:
        """What tells its loads from another's."""
        return f"{self.source}.c, {self.variant.name}"
