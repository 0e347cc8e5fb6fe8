"""Control flow of a linked program: basic blocks, and whether its instructions are ones at all.

A block is entered at its first instruction only, and once entered runs to its end, unless a fault
ends the program: what counts instructions counts blocks.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdplab.errors import NotPossibleError, ObjectError
from xdplab.program import insn as isa
from xdplab.program.insn import Insn
from xdplab.user.link import FunctionRef, LinkedProgram

TAIL_CALL = 12
"""Helper number of bpf_tail_call (enum bpf_func_id): where it succeeds, nothing comes back."""

_ALU_OPS = frozenset(range(isa.ADD, isa.END + 1, 0x10))
_JUMP_OPS = frozenset(range(isa.JEQ, isa.JSGE + 1, 0x10)) | {isa.JLT, isa.JLE, isa.JSLT, isa.JSLE}
_FETCHING = frozenset((isa.ADD, isa.OR, isa.AND, isa.XOR))
_ATOMICS = (
    _FETCHING
    | {op | isa.FETCH for op in _FETCHING}
    | {isa.XCHG, isa.CMPXCHG, isa.LOAD_ACQUIRE, isa.STORE_RELEASE}
)


@dataclass(frozen=True, slots=True)
class Block:
    """Instructions `slots` of function `function` (index), then one of `successors`.

    Successors are the first slots of other blocks; a conditional jump has the one that it falls
    through to first. `is_loop_head`: some jump to it goes backwards.
    """

    index: int
    function: int
    slots: tuple[int, ...]
    successors: tuple[int, ...]
    is_loop_head: bool

    @property
    def start(self) -> int:
        """The slot of the first instruction."""
        return self.slots[0]


def is_jump(insn: Insn) -> bool:
    """Whether `insn` may go elsewhere within its function: any jump, but no call or exit."""
    return insn.insn_class in (isa.JMP, isa.JMP32) and insn.op not in (isa.CALL, isa.EXIT)


def jump_target(slot: int, insn: Insn) -> int:
    """Where a jump at `slot` goes; `gotol` has its distance in the immediate."""
    distance = insn.imm if insn.code == isa.JMP32 | isa.JA else insn.off
    return slot + 1 + distance


def ends_block(insn: Insn) -> bool:
    """Whether what follows `insn` is a block of its own."""
    is_exit = insn.code == isa.JMP | isa.EXIT
    return is_jump(insn) or is_exit or is_tail_call(insn)


def is_tail_call(insn: Insn) -> bool:
    """Whether `insn` calls bpf_tail_call."""
    return insn.code == isa.JMP | isa.CALL and insn.src == 0 and insn.imm == TAIL_CALL


def find_blocks(program: LinkedProgram) -> tuple[Block, ...]:
    """The blocks of every function that can be reached, in order of slots.

    ObjectError where a reachable instruction is none or leaves its function,
    NotPossibleError where it is one that no XDP program has (legacy packet loads, arenas).
    """
    finder = _Finder(program)
    for index in range(len(program.functions)):
        finder.walk(index)
    return finder.blocks()


class _Finder:
    def __init__(self, program: LinkedProgram) -> None:
        self._program = program
        self._next: dict[int, tuple[int, ...]] = {}
        self._leaders: set[int] = set()
        self._loop_heads: set[int] = set()
        self._function: dict[int, int] = {}

    def walk(self, index: int) -> None:
        function = self._program.functions[index]
        self._leaders.add(function.start)
        waiting = [function.start]
        while waiting:
            slot = waiting.pop()
            if slot in self._next:
                continue
            if not function.start <= slot < function.end:
                raise ObjectError(
                    f"Translating {self._program.name}: function {function.name} goes on behind "
                    f"its end, at slot {slot - function.start} of {function.end - function.start}"
                )
            insn = self._program.insns[slot]
            _check(self._program, slot, insn)
            self._function[slot] = index
            following = self._following(slot, insn)
            self._next[slot] = following
            if ends_block(insn):
                self._leaders.update(following)
            if is_jump(insn) and jump_target(slot, insn) <= slot:
                self._loop_heads.add(jump_target(slot, insn))
            waiting.extend(following)

    def _following(self, slot: int, insn: Insn) -> tuple[int, ...]:
        if insn.code == isa.JMP | isa.EXIT:
            return ()
        if not is_jump(insn):
            return (slot + 2 if insn.is_wide else slot + 1,)
        target = jump_target(slot, insn)
        return (target,) if insn.op == isa.JA else (slot + 1, target)

    def blocks(self) -> tuple[Block, ...]:
        found: list[Block] = []
        current: list[int] = []
        for slot in sorted(self._next):
            current.append(slot)
            following = self._next[slot]
            ends = ends_block(self._program.insns[slot])
            if ends or any(place in self._leaders for place in following):
                found.append(
                    Block(
                        index=len(found),
                        function=self._function[slot],
                        slots=tuple(current),
                        successors=following,
                        is_loop_head=current[0] in self._loop_heads,
                    )
                )
                current = []
        return tuple(found)


def _check(program: LinkedProgram, slot: int, insn: Insn) -> None:
    wrong = _what_is_wrong(program, slot, insn)
    if wrong:
        raise ObjectError(f"Translating {program.place(slot)}: {wrong}")


def _what_is_wrong(program: LinkedProgram, slot: int, insn: Insn) -> str:
    unknown = f"opcode {insn.code:#04x} is no instruction"
    if insn.code == 0:
        return "it is the second half of a 64-bit load, or nothing"
    if insn.dst > 10 or (insn.src > 10):
        return "there is no register above r10"
    match insn.insn_class:
        case isa.ALU | isa.ALU64:
            wrong = "" if _is_known_alu(insn) else unknown
            writes = insn.dst
        case isa.JMP | isa.JMP32:
            return _wrong_jump(program, slot, insn) or ("" if _is_known_jump(insn) else unknown)
        case isa.LD:
            _refuse_legacy(program, slot, insn)
            whole = slot + 1 < len(program.insns) and program.insns[slot + 1].code == 0
            wrong = _wrong_reference(program, slot) if insn.is_wide and whole else unknown
            writes = insn.dst
        case isa.LDX:
            known = insn.mode == isa.MEM or (insn.mode == isa.MEMSX and insn.size != isa.DW)
            wrong, writes = "" if known else unknown, insn.dst
        case _:
            known = insn.mode == isa.MEM or _is_known_atomic(insn)
            wrong, writes = "" if known else unknown, _atomic_result(insn)
    if not wrong and writes == 10:
        return "it writes the frame pointer r10"
    return wrong


def _is_known_alu(insn: Insn) -> bool:
    wide = insn.insn_class == isa.ALU64
    register = insn.has_register_source
    match insn.op:
        case isa.MOV if register:
            return insn.off in ((0, 8, 16, 32) if wide else (0, 8, 16))
        case isa.DIV | isa.MOD:
            return insn.off in (0, 1)
        case isa.NEG:
            return not register
        case isa.END:
            return insn.imm in (16, 32, 64) and not (wide and register)
        case op:
            return op in _ALU_OPS and insn.off == 0


def _is_known_jump(insn: Insn) -> bool:
    wide = insn.insn_class == isa.JMP
    match insn.op:
        case isa.JA:
            return not insn.has_register_source
        case isa.JCOND:
            return wide and insn.src == 0 and not insn.has_register_source
        case isa.EXIT:
            return wide and not insn.has_register_source
        case isa.CALL:
            return wide and not insn.has_register_source and insn.src in (0, 1, 2)
        case op:
            return op in _JUMP_OPS


def _wrong_jump(program: LinkedProgram, slot: int, insn: Insn) -> str:
    if is_jump(insn):
        function = program.function_at(slot)
        if not function.start <= jump_target(slot, insn) < function.end:
            return "it jumps out of its function"
    if insn.code == isa.JMP | isa.CALL and insn.src and slot not in program.references:
        return "it calls a function that the object does not name"
    return _wrong_reference(program, slot)


def _wrong_reference(program: LinkedProgram, slot: int) -> str:
    reference = program.references.get(slot)
    starts = {function.start for function in program.functions[1:]}
    if isinstance(reference, FunctionRef) and reference.start not in starts:
        return "it refers to what is no subprogram"
    return ""


def _is_known_atomic(insn: Insn) -> bool:
    if insn.insn_class != isa.STX or insn.mode != isa.ATOMIC or insn.imm not in _ATOMICS:
        return False
    return insn.size in (isa.W, isa.DW) or insn.imm in (isa.LOAD_ACQUIRE, isa.STORE_RELEASE)


def _atomic_result(insn: Insn) -> int:
    if insn.mode != isa.ATOMIC or insn.imm in (isa.CMPXCHG, isa.STORE_RELEASE):
        return 0
    if insn.imm == isa.LOAD_ACQUIRE:
        return insn.dst
    return insn.src if insn.imm & isa.FETCH else 0


def _refuse_legacy(program: LinkedProgram, slot: int, insn: Insn) -> None:
    if insn.mode in (isa.ABS, isa.IND):
        raise NotPossibleError(
            f"Translating {program.place(slot)}: legacy packet loads work on socket buffers, "
            "which XDP programs do not have"
        )
