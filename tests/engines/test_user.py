"""The user-space engine on the seam: without any privilege, and like the kernel's."""

from __future__ import annotations

import os

import pytest

from xdplab.engines.base import XDP_DROP, XDP_PASS, Method, Subject
from xdplab.engines.kernel import KernelEngine
from xdplab.engines.user import BUFFERS, PACKETS, UserEngine
from xdplab.errors import UsageError
from xdplab.packets.frame import Frame, udp_frame
from xdplab.program.shipped import shipped_object
from xdplab.suites import packet_access
from xdplab.user.datapath import DATAPATH, datapath_value

FRAME = Frame(bytes(100))


def subject(program: str, key: str = "", **fields: object) -> Subject:
    """A subject of the adjust_head object with a thousand operations a run."""
    spec = shipped_object("adjust_head")
    known: dict[str, object] = {"operations": 1000, "globals": {"size": 6}} | fields
    return Subject(key or program, spec, program, FRAME, **known)  # type: ignore[arg-type]


def test_operations_and_packets_are_timed() -> None:
    with UserEngine().open([subject("loop_helper")], Method.OPERATION) as session:
        session.place(["loop_helper"])
        timer = session.timer("loop_helper")
        assert timer.operations_per_call == 1000
        assert min(timer() for _ in range(5)) > 0
        with pytest.raises(ValueError, match="fixed length"):
            session.timer("loop_helper", doubled=True)
    with UserEngine().open([subject("once_helper")], Method.PACKET) as session:
        session.place(["once_helper"])
        once, twice = session.timer("once_helper"), session.timer("once_helper", doubled=True)
        assert once.operations_per_call == twice.operations_per_call == PACKETS
        assert min(once() for _ in range(10)) < min(twice() for _ in range(10))


def test_more_work_takes_longer() -> None:
    subjects = [subject("loop_empty"), subject("loop_helper"), subject("loop_helper_twice")]
    with UserEngine().open(subjects, Method.OPERATION) as session:
        session.place([one.key for one in subjects])
        best = [min(session.timer(one.key)() for _ in range(30)) for one in subjects]
    assert best == sorted(best)
    assert len(set(best)) == 3


def test_a_placement_is_somewhere_else_and_timers_follow() -> None:
    with UserEngine().open([subject("once_helper")], Method.PACKET) as session:
        session.place(["once_helper"])
        timer = session.timer("once_helper")
        timer()
        for _ in range(5):
            session.place(["once_helper"])
            assert timer() > 0
        assert 0 <= session.placement("once_helper") < 64


@pytest.mark.parametrize("receive", ["ring", "veth-model"])
def test_stacks_and_helpers_are_not_always_in_one_place(receive: str) -> None:
    datapath = {"receive": receive}
    one = subject("once_helper", action=XDP_PASS, datapath=datapath)
    shifts, helpers, made = set(), set(), []
    with UserEngine().open([one], Method.PACKET) as session:
        first = session.timer("once_helper")
        for _ in range(40):
            session.place(["once_helper"])
            loaded = session._loaded[one.load_key]
            if loaded.object not in made:
                made.append(loaded.object)
            program = loaded.program
            called = loaded.object.symbols(program.translation)
            helpers.add(called["user_helper_xdp_adjust_head"])
            shifts.add(loaded.job(one, 1).stack_shift)
            assert session.timer("once_helper")() > 0
            # One that was made before goes on with what there is now.
            assert first() > 0
            assert session.run("once_helper").retval == XDP_PASS
    assert all(shift % 16 == 0 for shift in shifts)
    assert len(shifts) > 20
    # Copies of the runtime lie beside one another; with each comes a new object.
    assert 1 < len(helpers) <= len(made) <= 5


def test_a_wrong_action_and_a_lacking_helper_are_rows_that_say_so() -> None:
    subjects = [
        subject("once_helper", "big", globals={"size": 300}),
        subject("once_helper", "fine"),
    ]
    with UserEngine().open(subjects, Method.PACKET) as session:
        assert list(session.missing) == ["big"]
        assert "XDP_DROP" in session.missing["big"]
        assert session.run("fine").retval == XDP_PASS


@pytest.mark.parametrize("value", list(DATAPATH["clear_head"]))
def test_the_helper_clears_what_it_exposes_when_it_is_told_to(value: str) -> None:
    probe = subject("probe_clears", datapath={"clear_head": value}, globals={})
    with UserEngine().open([probe], Method.OPERATION) as session:
        session.run("probe_clears")
        # 1: the pattern is still there; 2: it reads as zero.
        assert session.read_global("probe_clears", "pattern_kept") == (1 if value == "none" else 2)


def test_unknown_data_path_variants_are_usage_errors() -> None:
    with pytest.raises(UsageError, match="clear_head"):
        datapath_value("clear_tail", "memset")
    with pytest.raises(UsageError, match="rep-stosb"):
        datapath_value("clear_head", "magic")


def test_the_mask_of_cpus_comes_back() -> None:
    mask = os.sched_getaffinity(0)
    with UserEngine().open([subject("once_empty")], Method.PACKET):
        assert len(os.sched_getaffinity(0)) == 1
    assert os.sched_getaffinity(0) == mask
    assert BUFFERS >= 64


@pytest.mark.needs_kernel
@pytest.mark.parametrize("packet", ["ipv4", "ipv6", "vlan", "qinq"])
@pytest.mark.parametrize("size", [64, 1500, 9000])
def test_both_engines_give_the_same_outcomes(packet: str, size: int) -> None:
    """One program, one frame, the same call on either engine."""
    spec = shipped_object("packet_access")
    frame = udp_frame(packet, size)
    subjects = [
        Subject(row.variant, spec, row.program, frame, action=row.action)
        for row in packet_access.ROWS
    ]
    with (
        KernelEngine().open(subjects, Method.PACKET) as kernel,
        UserEngine().open(subjects, Method.PACKET) as user,
    ):
        assert not user.missing
        for one in subjects:
            if one.key in kernel.missing:
                continue
            assert user.run(one.key) == kernel.run(one.key), one.key
            assert user.run(one.key).retval in {XDP_DROP, one.action}
