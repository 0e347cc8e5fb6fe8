"""The kernel engine on the running kernel: loads, placement, timers, and that nothing stays."""

from __future__ import annotations

import errno
import os
import platform
import signal
from dataclasses import replace
from types import FrameType

import pytest

from tests.conftest import kernel_descriptors
from xdplab.engines.base import XDP_DROP, XDP_PASS, Method, Subject
from xdplab.engines.kernel import ATTACHED, REPEAT, KernelEngine
from xdplab.errors import KernelError
from xdplab.kernel.libbpf import RelocatedProgram
from xdplab.kernel.testrun import TestRun
from xdplab.packets.frame import Frame
from xdplab.program import ObjectSpec
from xdplab.program.shipped import shipped_object

pytestmark = pytest.mark.needs_kernel

FRAME = Frame(bytes(100))


def subject(program: str, key: str = "", *, instance: int = 0, size: int = 6) -> Subject:
    """A subject of the adjust_head object."""
    return Subject(
        key or program,
        shipped_object("adjust_head"),
        program,
        FRAME,
        operations=1000,
        globals={"size": size},
        instance=instance,
    )


def test_operations_take_the_kernels_duration_of_one_run() -> None:
    with KernelEngine().open([subject("loop_helper")], Method.OPERATION) as session:
        session.place(["loop_helper"])
        timer = session.timer("loop_helper")
        taken_ns = timer()
        assert timer.operations_per_call == 1000
        assert taken_ns == timer.duration_ns
        # A thousand helper pairs are more than a thousand instructions: no clock says 0.
        assert taken_ns > 0


def test_more_work_takes_longer() -> None:
    subjects = [subject("loop_helper"), subject("loop_helper_twice"), subject("loop_empty")]
    with KernelEngine().open(subjects, Method.OPERATION) as session:
        session.place([s.key for s in subjects])
        best = {s.key: min(session.timer(s.key)() for _ in range(50)) for s in subjects}
    assert best["loop_empty"] < best["loop_helper"] < best["loop_helper_twice"]


def test_packets_are_timed_by_our_clock_and_twice_the_work_takes_longer() -> None:
    with KernelEngine().open([subject("once_helper")], Method.PACKET) as session:
        session.place(["once_helper"])
        once, twice = session.timer("once_helper"), session.timer("once_helper", doubled=True)
        assert once.operations_per_call == twice.operations_per_call == REPEAT
        assert min(once() for _ in range(20)) < min(twice() for _ in range(20))
        # The kernel's figure is per run, however many repeats a call has.
        assert twice.duration_ns is not None
        assert once.duration_ns is not None
        assert twice.duration_ns < 2 * once.duration_ns + 2


@pytest.mark.parametrize("method", list(Method))
def test_a_call_that_fails_is_the_kernels_error(
    monkeypatch: pytest.MonkeyPatch, method: Method
) -> None:
    def failing(_run: TestRun, _repeat: int) -> int:
        raise OSError(errno.ENOMEM, "as the kernel says it")

    with KernelEngine().open([subject("loop_empty")], method) as session:
        session.place(["loop_empty"])
        timer = session.timer("loop_empty")
        session.clock_ghz()
        with monkeypatch.context() as patch:
            patch.setattr(TestRun, "__call__", failing)
            # Not an OSError, which would be taken for one of writing the output.
            with pytest.raises(KernelError, match="running a loaded program: .*ENOMEM"):
                timer()
            if platform.machine() == "x86_64":
                with pytest.raises(KernelError, match="measuring the clock: .*ENOMEM"):
                    session.clock_ghz()


def test_the_engine_pins_to_the_cpu_that_it_names() -> None:
    engine = KernelEngine()
    with engine.open([subject("loop_empty")], Method.OPERATION):
        assert os.sched_getaffinity(0) == {engine.cpu}


def test_there_is_no_doubled_loop() -> None:
    with KernelEngine().open([subject("loop_empty")], Method.OPERATION) as session:
        session.place(["loop_empty"])
        with pytest.raises(ValueError, match="fixed length"):
            session.timer("loop_empty", doubled=True)


def test_every_placement_is_a_new_load_and_twins_do_not_share_one() -> None:
    subjects = [subject("loop_empty"), subject("loop_empty", "twin", instance=1)]
    seen = set()
    with KernelEngine().open(subjects, Method.OPERATION) as session:
        for _ in range(40):
            session.place(["loop_empty", "twin"])
            seen.add((session.placement("loop_empty"), session.placement("twin")))
    # Same program, same class wherever the allocator lets it; and not always the same class.
    assert len({first for first, _ in seen}) > 1
    assert any(first == second for first, second in seen)


def test_a_global_is_set_before_each_call_of_its_subject() -> None:
    subjects = [subject("once_helper", "small", size=6), subject("once_helper", "big", size=300)]
    with KernelEngine().open(subjects, Method.OPERATION) as session:
        # 300 bytes are more than the headroom: the program says so by XDP_DROP.
        assert session.run("small").retval == XDP_PASS
        assert session.run("big").retval == XDP_DROP
        assert session.run("small").retval == XDP_PASS
        assert list(session.missing) == ["big"]
        assert "XDP_DROP" in session.missing["big"]


def test_more_programs_than_are_attached_at_once_can_take_turns() -> None:
    names = [name for name in shipped_object("adjust_head").programs if name.startswith("once_")]
    assert len(names) > ATTACHED
    # A constant-size program clears what it has, so its size must be exposed.
    subjects = [subject(name, size=200) for name in names]
    with KernelEngine().open(subjects, Method.PACKET) as session:
        assert session.capacity == ATTACHED
        for start in range(0, len(names), ATTACHED):
            batch = names[start : start + ATTACHED]
            session.place(batch)
            assert all(session.timer(name)() > 0 for name in batch)


def test_what_the_kernel_lacks_is_a_row_that_says_so(no_such_kfunc: ObjectSpec) -> None:
    lacking = replace(subject("no_such_kfunc"), object=no_such_kfunc, globals={})
    fine = replace(lacking, key="fine", program="fine")
    with KernelEngine().open([lacking, fine], Method.OPERATION) as session:
        assert list(session.missing) == ["no_such_kfunc"]
        assert "bpf_xdplab_is_not_there" in session.missing["no_such_kfunc"]
        assert session.run("fine").retval == XDP_PASS


def test_a_session_gives_back_descriptors_and_the_cpu_mask() -> None:
    mask = os.sched_getaffinity(0)
    before = kernel_descriptors()
    for method, program in ((Method.OPERATION, "loop_empty"), (Method.PACKET, "once_empty")):
        session = KernelEngine().open([subject(program)], method)
        session.place([program])
        assert len(os.sched_getaffinity(0)) == 1
        assert kernel_descriptors() != before
        session.close()
        assert os.sched_getaffinity(0) == mask
        assert kernel_descriptors() == before


def test_a_failing_open_gives_everything_back() -> None:
    mask = os.sched_getaffinity(0)
    before = kernel_descriptors()
    broken = replace(subject("loop_empty"), program="there_is_none")
    with pytest.raises(Exception, match="there_is_none"):
        KernelEngine().open([subject("loop_helper"), broken], Method.OPERATION)
    assert os.sched_getaffinity(0) == mask
    assert kernel_descriptors() == before


def test_interrupted_calls_are_made_again_and_counted() -> None:
    """A timer that fires all the time cuts calls short (EINTR); none of them is a sample."""
    with KernelEngine().open([subject("once_helper")], Method.PACKET) as session:
        session.place(["once_helper"])
        timer = session.timer("once_helper")
        quiet_ns = min(timer() for _ in range(20))
        assert timer.interrupted == 0

        def ignore(_number: int, _frame: FrameType | None) -> None:
            pass

        previous = signal.signal(signal.SIGALRM, ignore)
        signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
        try:
            # Bounded: the kernel looks for signals where it would reschedule, by chance.
            for _ in range(20_000):
                disturbed_ns = timer()
                # Half the packets would take half the time: such a call must not be a sample.
                assert disturbed_ns > 0.7 * quiet_ns
                if timer.interrupted >= 3:
                    break
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, previous)
        assert timer.interrupted >= 3


def test_the_clock_is_one_that_a_core_can_have() -> None:
    with KernelEngine().open([subject("loop_empty")], Method.OPERATION) as session:
        ghz = session.clock_ghz()
    if ghz is None:
        pytest.skip("the chain of multiplications is known for x86 alone")
    assert 0.3 < ghz < 10


def test_a_program_whose_loop_is_in_a_function_takes_the_place_that_it_gets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loads = []

    def counted(program: RelocatedProgram) -> int:
        loads.append(program)
        return load(program)

    load = RelocatedProgram.load
    monkeypatch.setattr(RelocatedProgram, "load", counted)
    one = replace(subject("loop_call"), loop_in_function=True)
    with KernelEngine().open([one], Method.OPERATION) as session:
        for number in range(20):
            session.place([one.key])
            assert len(loads) == number + 1
