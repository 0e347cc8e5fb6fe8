"""Programs made of instructions, without a compiler: by hand, and at random."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from xdplab.program import insn as isa
from xdplab.program.insn import Insn, encode
from xdplab.program.spec import MapSpec, ObjectSpec, ProgramSpec
from xdplab.user.link import FunctionRef, LinkedFunction, LinkedProgram, Reference

M64 = (1 << 64) - 1
EXIT = Insn(isa.JMP | isa.EXIT)
ALU_OPS = (
    *(isa.ADD, isa.SUB, isa.MUL, isa.DIV, isa.OR, isa.AND, isa.LSH, isa.RSH),
    *(isa.NEG, isa.MOD, isa.XOR, isa.MOV, isa.ARSH),
)
SHIFTS = (isa.LSH, isa.RSH, isa.ARSH)
JUMP_OPS = (
    *(isa.JEQ, isa.JGT, isa.JGE, isa.JSET, isa.JNE, isa.JSGT),
    *(isa.JSGE, isa.JLT, isa.JLE, isa.JSLT, isa.JSLE),
)
ATOMICS = (
    *(isa.ADD, isa.OR, isa.AND, isa.XOR),
    *(op | isa.FETCH for op in (isa.ADD, isa.OR, isa.AND, isa.XOR)),
    isa.XCHG,
    isa.CMPXCHG,
)
SCALARS = (0, 1, 2, 3, 4, 5, 9)
"""Registers of random programs that are never pointers; r6 is the context, r7 the packet."""

PACKET_BYTES = 64
SLOTS = 8
_ADJUST_HEAD, _LOAD_BYTES, _STORE_BYTES = 44, 189, 190


def mov(dst: int, imm: int) -> Insn:
    """dst = imm, sign-extended."""
    return Insn(isa.ALU64 | isa.MOV | isa.K, dst, imm=imm)


def copy(dst: int, src: int) -> Insn:
    """dst = src."""
    return Insn(isa.ALU64 | isa.MOV | isa.X, dst, src)


def add(dst: int, imm: int) -> Insn:
    """dst += imm."""
    return Insn(isa.ALU64 | isa.ADD | isa.K, dst, imm=imm)


def wide(dst: int, value: int) -> list[Insn]:
    """dst = value, any 64 bits."""
    low, high = value & 0xFFFFFFFF, (value & M64) >> 32
    return [Insn(isa.LD_IMM64, dst, imm=_s32(low)), Insn(0, imm=_s32(high))]


def load(size: int, dst: int, src: int, off: int) -> Insn:
    """dst = *(size *)(src + off)."""
    return Insn(isa.LDX | size | isa.MEM, dst, src, off)


def store(size: int, dst: int, off: int, src: int) -> Insn:
    """*(size *)(dst + off) = src."""
    return Insn(isa.STX | size | isa.MEM, dst, src, off)


def call(number: int) -> Insn:
    """A helper."""
    return Insn(isa.JMP | isa.CALL, imm=number)


def _s32(value: int) -> int:
    return value - (1 << 32) if value >> 31 & 1 else value


def object_of(
    maps: Sequence[MapSpec] = (), sections: Mapping[str, bytes] | None = None
) -> ObjectSpec:
    """An object with these maps and data sections; programs are added to it linked."""
    return ObjectSpec(
        name="made",
        raw=b"",
        license="GPL",
        byte_order="little",
        programs={},
        subprograms={},
        maps={one.name: one for one in maps},
        globals={},
        sections=sections or {},
        externs={},
    )


def linked(
    *functions: Sequence[Insn], references: Mapping[int, Reference] | None = None
) -> LinkedProgram:
    """Functions one after another, the entry first; calls between them by `references`.

    Where no reference is given, local calls are resolved by their distance.
    """
    insns: list[Insn] = []
    found: list[LinkedFunction] = []
    for number, function in enumerate(functions):
        name = f"sub{number}" if number else "made"
        found.append(LinkedFunction(name, len(insns), len(insns) + len(function)))
        insns.extend(function)
    resolved = dict(references or {})
    for slot, insn in enumerate(insns):
        if insn.code == isa.JMP | isa.CALL and insn.src == 1 and slot not in resolved:
            resolved[slot] = FunctionRef(slot + 1 + insn.imm)
    return LinkedProgram(
        object_name="made",
        name="made",
        insns=tuple(insns),
        functions=tuple(found),
        references=resolved,
        lines=(None,) * len(insns),
    )


def as_bytes(program: LinkedProgram) -> bytes:
    """What the kernel takes: no maps or data, calls by distance."""
    return encode(program.insns)


def program_spec(program: LinkedProgram) -> ProgramSpec:
    """The entry function alone, as a reader would give it."""
    return ProgramSpec("made", "xdp", as_bytes(program), (), (), False)


class RandomProgram:
    """One program that the verifier takes, of `units` random parts; `seed` gives the same one.

    Scalars and stack slots always hold numbers, the packet's first bytes are always checked, and
    jumps go from unit to unit, so that every path is sound. In the end all scalars are written to
    the packet and the stack is folded into the retval: a wrong bit anywhere shows.
    """

    def __init__(self, seed: int, units: int) -> None:
        self._random = random.Random(seed)
        self._has_function = self._random.random() < 0.3
        self._calls_function = False
        body = [self._unit() for _ in range(units)]
        main = self._start() + self._joined(body) + self._finish()
        functions = [main]
        if self._calls_function:
            functions.append(self._function())
            main[:] = [
                Insn(insn.code, 0, 1, 0, len(main) - slot - 1)
                if insn.code == isa.JMP | isa.CALL and insn.src == 1
                else insn
                for slot, insn in enumerate(main)
            ]
        self.program = linked(*functions)

    def _number(self) -> int:
        pick = self._random
        return pick.choice(
            (
                pick.getrandbits(64),
                pick.getrandbits(32),
                pick.getrandbits(8),
                *(0, 1, M64, 1 << 63, 1 << 31, (1 << 31) - 1, (1 << 63) - 1, M64 << 31 & M64),
            )
        )

    def _immediate(self) -> int:
        pick = self._random
        return pick.choice(
            (pick.randint(-(1 << 31), (1 << 31) - 1), pick.randint(-3, 9), -(1 << 31), -1, 0)
        )

    def _scalar(self) -> int:
        return self._random.choice(SCALARS)

    def _start(self) -> list[Insn]:
        insns = [copy(6, 1), *self._packet()]
        insns += self._numbers(SCALARS)
        for slot in range(1, SLOTS + 1):
            insns.append(store(isa.DW, 10, -8 * slot, self._scalar()))
        return insns

    def _packet(self) -> list[Insn]:
        """r7 is the packet, PACKET_BYTES of it there, r8 its end; or the program ends at once."""
        return [
            load(isa.W, 7, 6, 0),
            load(isa.W, 8, 6, 4),
            copy(1, 7),
            add(1, PACKET_BYTES),
            Insn(isa.JMP | isa.JLE | isa.X, 1, 8, 2),
            mov(0, 99),
            EXIT,
        ]

    def _unit(self, depth: int = 0) -> list[Insn]:
        draw = self._random.random()
        if draw < 0.45:
            return [self._alu()]
        if draw < 0.50:
            code = self._random.choice((0xD4, 0xDC, 0xD7))
            return [Insn(code, self._scalar(), imm=self._random.choice((16, 32, 64)))]
        if draw < 0.62:
            return [self._stack()]
        if draw < 0.67:
            return self._atomic()
        if draw < 0.77:
            return self._packet_access()
        if draw < 0.80:
            return [load(isa.W, self._scalar(), 6, self._random.choice((12, 16)))]
        if draw < 0.83:
            return self._helper()
        if draw < 0.86:
            return self._subprogram_call()
        if depth > 2:
            return [self._alu()]
        return self._branch(depth) if draw < 0.96 else self._loop(depth)

    def _joined(self, units: list[list[Insn]]) -> list[Insn]:
        """Units in a row, with jumps from the end of one to the start of a later one."""
        jumps = {
            position: min(position + self._random.randint(1, 3), len(units))
            for position in range(len(units))
            if self._random.random() < 0.25
        }
        starts = [0]
        for position, unit in enumerate(units):
            starts.append(starts[-1] + len(unit) + (position in jumps))
        insns: list[Insn] = []
        for position, unit in enumerate(units):
            insns += unit
            if position in jumps:
                insns.append(self._condition(starts[jumps[position]] - starts[position + 1]))
        return insns

    def _condition(self, off: int) -> Insn:
        kind = self._random.choice((isa.JMP, isa.JMP32))
        op = self._random.choice(JUMP_OPS)
        if self._random.random() < 0.5:
            return Insn(kind | op | isa.X, self._scalar(), self._scalar(), off)
        return Insn(kind | op | isa.K, self._scalar(), 0, off, self._immediate())

    def _alu(self) -> Insn:
        pick = self._random
        kind = pick.choice((isa.ALU64, isa.ALU))
        bits = 64 if kind == isa.ALU64 else 32
        op = pick.choice(ALU_OPS)
        dst = self._scalar()
        if op == isa.NEG:
            return Insn(kind | op, dst)
        off = pick.choice((0, 1)) if op in (isa.DIV, isa.MOD) else 0
        if pick.random() < 0.5:
            if op == isa.MOV and pick.random() < 0.6:
                off = pick.choice((8, 16, 32) if bits == 64 else (8, 16))
            return Insn(kind | op | isa.X, dst, self._scalar(), off)
        imm = self._immediate()
        if op in SHIFTS:
            imm &= bits - 1
        if op in (isa.DIV, isa.MOD) and imm == 0:
            imm = 3
        return Insn(kind | op | isa.K, dst, 0, off, imm)

    def _place(self, size: int) -> int:
        return -8 * SLOTS + size * self._random.randrange(8 * SLOTS // size)

    def _stack(self) -> Insn:
        pick = self._random
        size = pick.choice((isa.B, isa.H, isa.W, isa.DW))
        off = self._place(isa.SIZE_BYTES[size])
        draw = pick.random()
        if draw < 0.4:
            return load(size, self._scalar(), 10, off)
        if draw < 0.5 and size != isa.DW:
            return Insn(isa.LDX | size | isa.MEMSX, self._scalar(), 10, off)
        if draw < 0.8:
            return store(size, 10, off, self._scalar())
        return Insn(isa.ST | size | isa.MEM, 10, 0, off, self._immediate())

    def _atomic(self) -> list[Insn]:
        """What is fetched goes through the packet, where the verifier loses sight of it.

        Verifiers up to Linux 6.18 at least do not follow the precision of a fetched value back
        to its stack slot, and remove code that is reached (docs/user-engine.md).
        """
        size = self._random.choice((isa.W, isa.DW))
        off = self._place(isa.SIZE_BYTES[size])
        op = self._random.choice(ATOMICS)
        register = self._scalar()
        insns = [Insn(isa.STX | size | isa.ATOMIC, 10, register, off, op)]
        if op & isa.FETCH:
            fetched = 0 if op == isa.CMPXCHG else register
            place = self._random.randint(0, PACKET_BYTES - 8)
            insns += [store(isa.DW, 7, place, fetched), load(isa.DW, fetched, 7, place)]
        return insns

    def _packet_access(self) -> list[Insn]:
        pick = self._random
        size = pick.choice((isa.B, isa.H, isa.W, isa.DW))
        room = PACKET_BYTES - isa.SIZE_BYTES[size]
        draw = pick.random()
        if draw < 0.4:
            return [load(size, self._scalar(), 7, pick.randint(0, room))]
        if draw < 0.6:
            return [store(size, 7, pick.randint(0, room), self._scalar())]
        # A variable offset takes a check of its own. Both registers are numbers again behind it.
        index, end = pick.sample((1, 2, 3, 4, 5), 2)
        off = pick.randint(0, room)
        access = load(size, 9, index, off) if draw < 0.8 else store(size, index, off, 9)
        return [
            Insn(isa.ALU64 | isa.AND | isa.K, index, imm=63),
            Insn(isa.ALU64 | isa.ADD | isa.X, index, 7),
            copy(end, index),
            add(end, off + isa.SIZE_BYTES[size]),
            Insn(isa.JMP | isa.JGT | isa.X, end, 8, 1),
            access,
            mov(index, self._immediate()),
            mov(end, self._immediate()),
        ]

    def _helper(self) -> list[Insn]:
        pick = self._random
        draw = pick.random()
        offset = pick.choice((0, 1, 8, 40, 57, 64, 100, 1000))
        if draw < 0.4:
            call_it = [
                copy(1, 6),
                mov(2, offset),
                copy(3, 10),
                add(3, -8 * SLOTS),
                mov(4, pick.choice((1, 3, 8, 8 * SLOTS))),
                call(pick.choice((_LOAD_BYTES, _STORE_BYTES))),
            ]
            return [*call_it, *self._scalars_again()]
        distance = pick.choice((-200, -20, -14, -4, -1, 0, 1, 4, 14, 20, 200))
        # Its answer is written to the stack, since the check of the new packet takes registers.
        return [
            copy(1, 6),
            mov(2, distance),
            call(_ADJUST_HEAD),
            store(isa.DW, 10, -8, 0),
            *self._packet(),
            load(isa.DW, 0, 10, -8),
            *self._scalars_again(),
        ]

    def _scalars_again(self) -> list[Insn]:
        return self._numbers((1, 2, 3, 4, 5))

    def _numbers(self, registers: Sequence[int]) -> list[Insn]:
        """Constants, or what the packet has: LLVM must not know the results beforehand."""
        insns: list[Insn] = []
        for register in registers:
            if self._random.random() < 0.7:
                insns.append(load(isa.DW, register, 7, self._random.randint(0, PACKET_BYTES - 8)))
            else:
                insns += wide(register, self._number())
        return insns

    def _subprogram_call(self) -> list[Insn]:
        if not self._has_function:
            return [self._alu()]
        self._calls_function = True
        return [Insn(isa.JMP | isa.CALL, 0, 1), *self._scalars_again()]

    def _function(self) -> list[Insn]:
        insns = [store(isa.DW, 10, -8 * slot, 1 + slot % 5) for slot in range(1, SLOTS + 1)]
        insns += [mov(0, 7)]
        for register in (6, 7, 8, 9):
            # Callee-saved: what is done to them here must not be seen by the caller.
            insns += [copy(register, 1 + register % 5)]
        for _ in range(self._random.randint(1, 12)):
            insns.append(self._random.choice((self._alu, self._stack))())
        insns += [Insn(isa.ALU64 | isa.XOR | isa.X, 0, register) for register in (1, 3, 6, 8)]
        return [*insns, EXIT]

    def _branch(self, depth: int) -> list[Insn]:
        then = self._unit(depth + 1) + self._unit(depth + 1)
        otherwise = self._unit(depth + 1)
        jump = (
            Insn(isa.JMP32 | isa.JA, imm=len(otherwise))
            if self._random.random() < 0.3
            else Insn(isa.JMP | isa.JA, off=len(otherwise))
        )
        if self._random.random() < 0.5:
            return [self._condition(len(then)), *then]
        return [self._condition(len(then) + 1), *then, jump, *otherwise]

    def _loop(self, depth: int) -> list[Insn]:
        """A few turns, counted in a stack slot of its own."""
        body = self._unit(3)
        counter = -8 * (SLOTS + 1 + depth)
        turns = self._random.randint(1, 4)
        test = [
            load(isa.DW, 0, 10, counter),
            add(0, -1),
            store(isa.DW, 10, counter, 0),
        ]
        back = Insn(isa.JMP | isa.JNE | isa.K, 0, 0, -(len(body) + len(test) + 1), 0)
        return [Insn(isa.ST | isa.DW | isa.MEM, 10, 0, counter, turns), *body, *test, back]

    def _finish(self) -> list[Insn]:
        """Fold the stack into r0, and write the scalars into the packet."""
        insns = [store(isa.DW, 7, 8 * place, register) for place, register in enumerate(SCALARS)]
        insns += [mov(0, 0)]
        for slot in range(1, SLOTS + 1):
            insns += [
                load(isa.DW, 1, 10, -8 * slot),
                Insn(isa.ALU64 | isa.MUL | isa.K, 0, imm=31),
                Insn(isa.ALU64 | isa.XOR | isa.X, 0, 1),
            ]
        insns += [
            copy(1, 0),
            Insn(isa.ALU64 | isa.RSH | isa.K, 1, imm=32),
            Insn(isa.ALU64 | isa.XOR | isa.X, 0, 1),
            EXIT,
        ]
        return insns
