"""Arithmetic and jumps: native code gives what the interpreter gives, on any numbers."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.user.programs import ALU_OPS, EXIT, JUMP_OPS, SHIFTS, linked, load, mov, object_of, store
from xdplab.packets.frame import Frame
from xdplab.program import insn as isa
from xdplab.program.insn import Insn
from xdplab.user.interpreter import Interpreter, alu, jump_is_taken
from xdplab.user.link import LinkedProgram
from xdplab.user.machine import UserObject, UserProgram
from xdplab.user.options import Mode, Options

LEAST, MINUS_ONE = 1 << 63, (1 << 64) - 1
NUMBERS = st.one_of(
    st.integers(0, MINUS_ONE),
    st.integers(0, 70),
    st.sampled_from(
        (LEAST, LEAST - 1, MINUS_ONE, 1 << 31, (1 << 31) - 1, (1 << 32) - 1, 1 << 32, 0x80, 0x8000)
    ),
)


def alu_forms() -> list[Insn]:
    """Every ALU instruction on registers r1 and r2, and those on r1 alone."""
    forms = []
    for kind in (isa.ALU, isa.ALU64):
        for op in ALU_OPS:
            offsets: tuple[int, ...] = (0,)
            if op in (isa.DIV, isa.MOD):
                offsets = (0, 1)
            if op == isa.MOV:
                offsets = (0, 8, 16) if kind == isa.ALU else (0, 8, 16, 32)
            source = isa.K if op == isa.NEG else isa.X
            forms += [Insn(kind | op | source, 1, 2, off) for off in offsets]
        swaps = (isa.K, isa.X) if kind == isa.ALU else (isa.K,)
        forms += [Insn(kind | isa.END | to, 1, imm=bits) for to in swaps for bits in (16, 32, 64)]
    return forms


def immediate_forms(imm: int) -> list[Insn]:
    """Every ALU instruction with an immediate that the verifier takes."""
    forms = []
    for kind, bits in ((isa.ALU, 32), (isa.ALU64, 64)):
        for op in ALU_OPS:
            if op == isa.NEG:
                continue
            value = imm & bits - 1 if op in SHIFTS else imm
            offsets = (0, 1) if op in (isa.DIV, isa.MOD) else (0,)
            forms += [Insn(kind | op | isa.K, 1, 0, off, value) for off in offsets]
    return forms


JUMPS = [Insn(kind | op | isa.X, 1, 2, 1) for kind in (isa.JMP, isa.JMP32) for op in JUMP_OPS]


def program_of(forms: list[Insn], jumps: list[Insn]) -> LinkedProgram:
    """Reads r1 and r2 from the packet; writes what each form makes of them to where they were."""
    insns = [Insn(0x61, 7, 1, 0)]
    place = 16
    for form in forms:
        insns += [load(isa.DW, 1, 7, 0), load(isa.DW, 2, 7, 8), form, store(isa.DW, 7, place, 1)]
        place += 8
    for jump in jumps:
        insns += [load(isa.DW, 1, 7, 0), load(isa.DW, 2, 7, 8), mov(3, 1), jump, mov(3, 0)]
        insns.append(store(isa.DW, 7, place, 3))
        place += 8
    return linked([*insns, mov(0, 2), EXIT])


@cache
def loaded(mode: Mode) -> tuple[UserObject, UserProgram]:
    owner = UserObject(object_of(), Options(mode))
    return owner, owner.add(program_of(alu_forms(), JUMPS))


@pytest.mark.parametrize("mode", Mode)
@settings(max_examples=150)
@given(NUMBERS, NUMBERS)
@example(LEAST, MINUS_ONE)
@example(1 << 31, (1 << 32) - 1)
@example(LEAST, 0)
@example(5, 64)
@example(MINUS_ONE - 6, 2)
def test_registers(mode: Mode, a: int, b: int) -> None:
    forms = alu_forms()
    size = 16 + 8 * (len(forms) + len(JUMPS))
    frame = Frame(a.to_bytes(8, "little") + b.to_bytes(8, "little") + bytes(size - 16))
    outcome = loaded(mode)[1].run(frame)
    results = [
        int.from_bytes(outcome.data[place : place + 8], "little") for place in range(16, size, 8)
    ]
    expected = [alu(form, a, b) for form in forms]
    expected += [int(jump_is_taken(jump, a, b)) for jump in JUMPS]
    assert dict(enumerate(results)) == dict(enumerate(expected))


@pytest.mark.parametrize("imm", [0, 1, 7, 31, -1, -7, 0x7FFFFFFF, -0x80000000])
def test_immediates(imm: int) -> None:
    forms = immediate_forms(imm)
    jumps = [
        Insn(kind | op | isa.K, 1, 0, 1, imm) for kind in (isa.JMP, isa.JMP32) for op in JUMP_OPS
    ]
    size = 16 + 8 * (len(forms) + len(jumps))
    with UserObject(object_of()) as owner:
        program = owner.add(program_of(forms, jumps))
        interpreter = Interpreter(owner)
        for a in (0, 1, 5, 63, LEAST, LEAST - 1, MINUS_ONE, 1 << 31, (1 << 32) - 1, 0x123456789):
            frame = Frame(a.to_bytes(8, "little") + bytes(size - 8))
            assert program.run(frame).data == interpreter.run(program.linked, frame).data


@pytest.mark.parametrize(
    ("insn", "a", "b", "result"),
    [
        (Insn(isa.ALU64 | isa.DIV | isa.X, 1, 2), 7, 0, 0),
        (Insn(isa.ALU64 | isa.MOD | isa.X, 1, 2), 7, 0, 7),
        (Insn(isa.ALU | isa.MOD | isa.X, 1, 2), MINUS_ONE, 1 << 32, 0xFFFFFFFF),
        (Insn(isa.ALU64 | isa.DIV | isa.X, 1, 2, 1), LEAST, MINUS_ONE, LEAST),
        (Insn(isa.ALU64 | isa.MOD | isa.X, 1, 2, 1), LEAST, MINUS_ONE, 0),
        (Insn(isa.ALU | isa.DIV | isa.X, 1, 2, 1), 1 << 31, 0xFFFFFFFF, 1 << 31),
        (Insn(isa.ALU64 | isa.DIV | isa.X, 1, 2, 1), MINUS_ONE - 6, 2, MINUS_ONE - 2),
        (Insn(isa.ALU64 | isa.MOD | isa.X, 1, 2, 1), MINUS_ONE - 6, 2, MINUS_ONE),
        (Insn(isa.ALU64 | isa.LSH | isa.X, 1, 2), 1, 65, 2),
        (Insn(isa.ALU | isa.ARSH | isa.X, 1, 2), 1 << 31, 33, 0xC0000000),
        (Insn(isa.ALU64 | isa.MOV | isa.X, 1, 2, 8), 0, 0x80, MINUS_ONE - 0x7F),
        (Insn(isa.ALU | isa.MOV | isa.X, 1, 2, 16), 0, 0x8000, 0xFFFF8000),
        (Insn(isa.ALU | isa.END | isa.X, 1, imm=16), 0xAABBCCDD, 0, 0xDDCC),
        (Insn(isa.ALU | isa.END | isa.K, 1, imm=16), 0xAABBCCDD, 0, 0xCCDD),
        (Insn(isa.ALU64 | isa.END | isa.K, 1, imm=32), 0x11AABBCCDD, 0, 0xDDCCBBAA),
        (Insn(isa.ALU | isa.NEG, 1), 1, 0, 0xFFFFFFFF),
    ],
)
def test_the_interpreter_says_what_the_standard_says(
    insn: Insn, a: int, b: int, result: int
) -> None:
    assert alu(insn, a, b) == result
