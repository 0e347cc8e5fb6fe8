"""Random programs: all modes, the interpreter and, where it may be used, the kernel agree."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator

import pytest

from tests.conftest import WHY_NO_KERNEL
from tests.user.programs import RandomProgram, as_bytes, object_of
from xdplab.packets.frame import Frame
from xdplab.program import insn as isa
from xdplab.user import translate_alu, translate_memory
from xdplab.user.interpreter import Interpreter
from xdplab.user.link import LinkedProgram
from xdplab.user.machine import Outcome, UserObject
from xdplab.user.options import Mode, Options

PACKETS = 6
SEEDS = range(25)


def frames(seed: int) -> list[Frame]:
    """Some frames, one of them too short for what the programs want."""
    pick = random.Random(seed)
    sizes = [40, *(pick.choice((64, 65, 100, 256, 1500)) for _ in range(PACKETS - 1))]
    return [Frame(pick.randbytes(size)) for size in sizes]


def by_interpreter(program: LinkedProgram, seed: int) -> list[Outcome]:
    with UserObject(object_of()) as owner:
        interpreter = Interpreter(owner)
        return [interpreter.run(program, frame) for frame in frames(seed)]


def by_native(program: LinkedProgram, seed: int, options: Options) -> list[Outcome]:
    with UserObject(object_of(), options) as owner:
        loaded = owner.add(program)
        return [loaded.run(frame) for frame in frames(seed)]


def by_kernel(program: LinkedProgram, seed: int) -> Iterator[tuple[int, bytes]]:
    from xdplab.kernel import bpf
    from xdplab.kernel.testrun import TestRun

    fd, _ = bpf.prog_load(as_bytes(program))
    try:
        for frame in frames(seed):
            outcome = TestRun(fd, frame.data).outcome()
            yield outcome.retval, outcome.data
    finally:
        os.close(fd)


@pytest.mark.parametrize("seed", SEEDS)
def test_all_agree(seed: int) -> None:
    program = RandomProgram(seed, random.Random(seed).randint(5, 40)).program
    expected = by_interpreter(program, seed)
    for mode in Mode:
        found = by_native(program, seed, Options(mode))
        for outcome, wanted in zip(found, expected, strict=True):
            assert (outcome.retval, outcome.data) == (wanted.retval, wanted.data), mode
            assert outcome.fault is None
            if mode is not Mode.TIMED:
                assert outcome.instructions == wanted.instructions
    if not WHY_NO_KERNEL:
        said = list(by_kernel(program, seed))
        assert said == [(wanted.retval, wanted.data) for wanted in expected]


@pytest.mark.parametrize("options", [Options(inline_helpers=True), Options(faithful=False)])
@pytest.mark.parametrize("seed", range(4))
def test_options_change_no_result(seed: int, options: Options) -> None:
    program = RandomProgram(seed, 25).program
    expected = by_interpreter(program, seed)
    assert by_native(program, seed, options) == [
        Outcome(wanted.retval, wanted.data, wanted.metadata) for wanted in expected
    ]


MUTATIONS = {
    "a signed compare is unsigned": (translate_alu.COMPARISONS, isa.JSGT, "ugt"),
    "an unsigned compare is signed": (translate_alu.COMPARISONS, isa.JLT, "slt"),
    "less is less or equal": (translate_alu.COMPARISONS, isa.JSLT, "sle"),
    "an arithmetic shift is logical": (translate_alu.SHIFTS, isa.ARSH, "lshr"),
    "or is xor": (translate_alu.BINARY, isa.OR, "xor"),
    "sub is add": (translate_alu.BINARY, isa.SUB, "add"),
    "an atomic or is and": (translate_memory._ATOMICS, isa.OR, "and"),
    "the queue is the interface": (translate_memory.CTX_NUMBERS, 16, 40),
}


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_a_wrong_translation_is_noticed(mutation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table, key, wrong = MUTATIONS[mutation]
    monkeypatch.setitem(table, key, wrong)
    assert _notices()


@pytest.mark.parametrize(
    ("module", "name", "wrong"),
    [(translate_alu, "_divided", lambda emitter, insn, bits, target, source: target)],
)
def test_a_wrong_part_is_noticed(
    module: object, name: str, wrong: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, name, wrong)
    assert _notices()


def _notices() -> bool:
    for seed in range(40):
        program = RandomProgram(seed, 40).program
        if by_native(program, seed, Options()) != [
            Outcome(one.retval, one.data, one.metadata) for one in by_interpreter(program, seed)
        ]:
            return True
    return False
