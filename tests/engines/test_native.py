"""The native engine: compiled C in this process, with and without mitigations."""

from __future__ import annotations

import os
import platform

import pytest

from tests.engines.machine_code import assembly
from xdplab.engines.base import Method, Subject
from xdplab.engines.kernel import KernelEngine
from xdplab.engines.native import NativeEngine
from xdplab.engines.user import UserEngine
from xdplab.native.code import SHIFTS, NativeCode
from xdplab.packets.frame import Frame
from xdplab.program.native import PLAIN, CodeVariant, NativeSpec
from xdplab.program.shipped import shipped_object

FRAME = Frame(bytes(64))

RETURN_THUNK = CodeVariant(returns="thunk")
SAFE_RETURN = CodeVariant(returns="safe")
RETPOLINE = CodeVariant(branches="retpoline")
INDIRECT_THUNK = CodeVariant(branches="thunk")
BOTH = CodeVariant("thunk", "retpoline")

on_x86 = pytest.mark.skipif(
    platform.machine() not in {"x86_64", "AMD64"}, reason="thunks and the TSC are x86-64's"
)


def subject(program: str, variant: CodeVariant = PLAIN, **fields: object) -> Subject:
    """A function of calls.c, a thousand turns a call."""
    known: dict[str, object] = {"operations": 1000} | fields
    key = f"{variant.name}/{program}"
    return Subject(key, NativeSpec("calls", variant), program, FRAME, **known)  # type: ignore[arg-type]


def test_operations_are_timed_and_packets_are_not_there() -> None:
    with NativeEngine().open([subject("function_call")], Method.OPERATION) as session:
        assert not session.missing
        session.place(["plain/function_call"])
        timer = session.timer("plain/function_call")
        assert timer.operations_per_call == 1000
        assert min(timer() for _ in range(5)) > 0
        with pytest.raises(ValueError, match="fixed length"):
            session.timer("plain/function_call", doubled=True)
    with pytest.raises(ValueError, match="no packets"):
        NativeEngine().open([subject("empty")], Method.PACKET)


def test_more_turns_take_longer_and_a_call_more_than_none() -> None:
    subjects = [
        subject("empty"),
        subject("function_call"),
        Subject("many", NativeSpec("calls"), "function_call", FRAME, operations=4000),
    ]
    with NativeEngine().open(subjects, Method.OPERATION) as session:
        best = [min(session.timer(one.key)() for _ in range(50)) for one in subjects]
    assert best == sorted(best)
    assert best[2] > 2 * best[1] > 2 * best[0]


def test_a_trial_has_one_place_in_a_line_and_trials_have_them_all() -> None:
    twin = Subject("twin", NativeSpec("calls"), "empty", FRAME, instance=1)
    subjects = [subject("empty"), subject("function_call"), twin]
    keys = [one.key for one in subjects]
    seen = set()
    with NativeEngine().open(subjects, Method.OPERATION) as session:
        for _ in range(40):
            session.place(keys)
            places = {session.placement(key) for key in keys}
            assert len(places) == 1
            seen |= places
            assert all(session.timer(key)() > 0 for key in keys)
    assert seen == set(SHIFTS)


@on_x86
@pytest.mark.parametrize(
    ("variant", "name"),
    [
        (PLAIN, "plain"),
        (RETURN_THUNK, "return-thunk"),
        (SAFE_RETURN, "safe-return"),
        (RETPOLINE, "retpoline"),
        (INDIRECT_THUNK, "indirect-thunk"),
        (BOTH, "return-thunk+retpoline"),
    ],
)
def test_variants_are_named_and_are_in_the_machine_code(variant: CodeVariant, name: str) -> None:
    assert variant.name == name
    caller = assembly(NativeSpec("calls", variant), "indirect_call")
    assert ("jmp\t__x86_return_thunk" in caller) == (variant.returns != "plain")
    assert ("retq" in caller) == (variant.returns == "plain")
    assert ("callq\t__x86_indirect_thunk_r11" in caller) == (variant.branches != "plain")
    assert ("callq\t*" in caller) == (variant.branches == "plain")
    with NativeEngine().open([subject("indirect_call", variant)], Method.OPERATION) as session:
        assert not session.missing
        assert session.timer(f"{name}/indirect_call")() > 0


@on_x86
def test_what_is_predicted_wrongly_on_purpose_costs_more() -> None:
    """A wrong prediction is some fifteen cycles on any processor that predicts at all."""
    subjects = [
        subject(program, variant)
        for variant in (PLAIN, SAFE_RETURN, RETPOLINE)
        for program in ("function_call", "indirect_call")
    ]
    with NativeEngine().open(subjects, Method.OPERATION) as session:
        best = {
            one.key: min(session.timer(one.key)() for _ in range(50)) / one.operations
            for one in subjects
        }
    assert best["safe-return/function_call"] > 2 * best["plain/function_call"]
    assert best["retpoline/indirect_call"] > 2 * best["plain/indirect_call"]
    # A retpoline is in the way of indirect branches alone.
    assert best["retpoline/function_call"] < 2 * best["plain/function_call"]


@on_x86
def test_reference_cycles_are_as_long_each_time_whatever_the_core_does() -> None:
    cycles = Subject("tsc", NativeSpec("clock"), "reference_cycles", FRAME, operations=100_000)
    with NativeEngine().open([cycles], Method.OPERATION) as session:
        timer = session.timer("tsc")
        once, again = (min(timer() for _ in range(20)) for _ in range(2))
        clock_ghz = session.clock_ghz()
    assert once == pytest.approx(again, rel=0.01)
    assert clock_ghz is not None
    # Counters run between the slowest and the fastest clock of processors of this century.
    assert 0.5 < 100_000 / once < 8


def test_what_is_not_there_and_what_fails_are_rows_that_say_so() -> None:
    subjects = [subject("no_such_function"), subject("empty", action=1), subject("function_call")]
    with NativeEngine().open(subjects, Method.OPERATION) as session:
        assert sorted(session.missing) == ["plain/empty", "plain/no_such_function"]
        assert "there is no no_such_function" in session.missing["plain/no_such_function"]
        assert "answered 2 where 1" in session.missing["plain/empty"]


def test_other_processors_have_no_thunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xdplab.user.runtime.architecture", lambda: "aarch64")
    with NativeEngine().open([subject("empty", RETPOLINE)], Method.OPERATION) as session:
        assert "x86-64 alone" in session.missing["retpoline/empty"]
    # And no reference cycles either.
    assert "reference_cycles" not in NativeCode(NativeSpec("clock")).functions
    assert "empty" in NativeCode(NativeSpec("calls")).functions


def test_engines_refuse_one_anothers_programs() -> None:
    native = [subject("empty")]
    bpf = [Subject("bpf", shipped_object("adjust_head"), "loop_empty", FRAME)]
    with pytest.raises(TypeError, match="BPF program"):
        NativeEngine().open(bpf, Method.OPERATION)
    with pytest.raises(TypeError, match="native function"):
        UserEngine().open(native, Method.OPERATION)
    with pytest.raises(TypeError, match="native function"):
        _ = native[0].bpf_object
    assert {NativeEngine.name, UserEngine.name, KernelEngine.name} == {"native", "user", "kernel"}


def test_the_mask_of_cpus_comes_back() -> None:
    mask = os.sched_getaffinity(0)
    with NativeEngine().open([subject("empty")], Method.OPERATION):
        assert len(os.sched_getaffinity(0)) == 1
    assert os.sched_getaffinity(0) == mask
