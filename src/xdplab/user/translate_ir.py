"""LLVM IR as text: what every part of the translation writes into."""

from __future__ import annotations

from collections.abc import Sequence

REGISTERS = 11
STACK_BYTES = 512
"""MAX_BPF_STACK: what a function may use below its r10."""

# Type-based alias analysis: the frame's fields, the state and the program's own memory are three
# places that never overlap, so that bounds and counters are not read again after every store.
FRAME, STATE, MEMORY = "!tbaa !2", "!tbaa !4", "!tbaa !6"
METADATA = """\
!0 = !{!"xdplab"}
!1 = !{!"frame", !0}
!2 = !{!1, !1, i64 0}
!3 = !{!"state", !0}
!4 = !{!3, !3, i64 0}
!5 = !{!"memory", !0}
!6 = !{!5, !5, i64 0}
!7 = !{!"branch_weights", i32 4000, i32 1}
"""
LIKELY = "!prof !7"


class Emitter:
    """Lines of one function. Names of values and labels are new ones unless given."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._names = 0

    def do(self, text: str) -> None:
        """An instruction without a result."""
        self.lines.append(f"  {text}")

    def value(self, text: str) -> str:
        """An instruction; the name of its result."""
        self._names += 1
        name = f"%v{self._names}"
        self.lines.append(f"  {name} = {text}")
        return name

    def new_label(self, hint: str) -> str:
        """A label that no block has yet."""
        self._names += 1
        return f"{hint}.{self._names}"

    def begin(self, label: str) -> None:
        """Start a block."""
        self.lines.append(f"{label}:")

    def branch(self, condition: str, then: str, otherwise: str, likely: bool = False) -> None:
        """End a block; `likely`: `then` is where it goes all but always."""
        hint = f", {LIKELY}" if likely else ""
        self.do(f"br i1 {condition}, label %{then}, label %{otherwise}{hint}")

    def get(self, register: int, bits: int = 64) -> str:
        """The low `bits` bits of a BPF register."""
        whole = self.value(f"load i64, ptr %r{register}")
        return whole if bits == 64 else self.value(f"trunc i64 {whole} to i{bits}")

    def put(self, register: int, value: str | int, bits: int = 64) -> None:
        """Set a BPF register to a value of `bits` bits, zero-extended."""
        if bits != 64:
            value = self.value(f"zext i{bits} {value} to i64")
        self.do(f"store i64 {value}, ptr %r{register}")

    def field(self, base: str, offset: int) -> str:
        """The address `offset` bytes into the structure at pointer `base`."""
        return self.value(f"getelementptr i8, ptr {base}, i64 {offset}")

    def load_field(self, base: str, offset: int, bits: int, alias: str) -> str:
        """A field of `bits` bits as an integer."""
        return self.value(f"load i{bits}, ptr {self.field(base, offset)}, {alias}")

    def call(self, function: str, arguments: Sequence[str]) -> str:
        """Call what returns u64; arguments have their types."""
        return self.value(f"call i64 {function}({', '.join(arguments)})")
