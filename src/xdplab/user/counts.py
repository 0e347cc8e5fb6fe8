"""How often what was executed: from counts of basic blocks to instructions, lines and helpers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from xdplab.errors import MissingFeatureError
from xdplab.program import insn as isa
from xdplab.user.calls import find_spec
from xdplab.user.flow import Block
from xdplab.user.link import FunctionRef, LinkedProgram


@dataclass(frozen=True, slots=True)
class Counts:
    """Executions of a program's blocks; `by_block[i]` is that of `blocks[i]`.

    Instructions are counted as the kernel's verifier does: a 64-bit load is one. Where a fault
    ended a packet, its last block counts whole.
    """

    program: LinkedProgram
    blocks: tuple[Block, ...]
    by_block: tuple[int, ...]

    @property
    def instructions(self) -> int:
        """All instructions executed."""
        return sum(
            count * len(block.slots)
            for block, count in zip(self.blocks, self.by_block, strict=False)
        )

    def by_slot(self) -> Mapping[int, int]:
        """Executions of each instruction that can be reached, by slot."""
        return {
            slot: count
            for block, count in zip(self.blocks, self.by_block, strict=False)
            for slot in block.slots
        }

    def by_line(self) -> Mapping[tuple[str, int], int]:
        """Instructions executed for each source line, by file and line; ("", 0) has the rest."""
        found: Counter[tuple[str, int]] = Counter()
        for slot, count in self.by_slot().items():
            line = self.program.lines[slot]
            found[(line.file, line.line) if line else ("", 0)] += count
        return found

    def by_helper(self) -> Mapping[str, int]:
        """Calls of helpers and kfuncs by name."""
        found: Counter[str] = Counter()
        for slot, count in self.by_slot().items():
            insn = self.program.insns[slot]
            is_call = insn.code == isa.JMP | isa.CALL
            if not is_call or isinstance(self.program.references.get(slot), FunctionRef):
                continue
            try:
                found[find_spec(self.program, slot, insn).name] += count
            except MissingFeatureError:
                # bpf_tail_call is no helper of the runtime.
                found["tail_call" if insn.imm == 12 else "missing"] += count
        return found
