"""The live engine: packets get through, all are counted, and what cannot be is said."""

from __future__ import annotations

import os

import pytest

from xdplab.engines.base import XDP_DROP, XDP_REDIRECT, XDP_TX, Method, Subject, Timer
from xdplab.engines.live import LiveEngine
from xdplab.engines.live_ways import PACKETS
from xdplab.errors import KernelError
from xdplab.packets.frame import udp_frame
from xdplab.program.shipped import shipped_object
from xdplab.suites.veth_routes import ROUTES

pytestmark = pytest.mark.needs_kernel

FRAME = udp_frame("ipv4", 64)


def subject(
    program: str, way: str, generator: str = "frames", action: int = XDP_DROP, mode: str = "native"
) -> Subject:
    return Subject(
        f"{program}/{way}/{generator}/{mode}",
        shipped_object("paths"),
        program,
        FRAME,
        action=action,
        datapath={"way": way, "generator": generator, "mode": mode},
    )


@pytest.mark.parametrize("generator", PACKETS)
def test_every_packet_of_every_way_is_at_the_device_and_at_the_end(generator: str) -> None:
    subjects = [subject(route.program, route.way, generator, route.action) for route in ROUTES]
    with LiveEngine().open(subjects, Method.LIVE) as session:
        assert session.missing == {}
        for one in subjects:
            timer = session.timer(one.key)
            twice = session.timer(one.key, doubled=True)
            assert timer.operations_per_call == twice.operations_per_call == PACKETS[generator]
            for counted, packets in ((timer, PACKETS[generator]), (twice, 2 * PACKETS[generator])):
                # A busy machine may leave a ring to ksoftirqd, and it overflows: not every time.
                assert any(are_all_there(counted, packets) for _ in range(5))


def are_all_there(timer: Timer, packets: int) -> bool:
    """Whether a call lost nothing; what it lost is counted, whatever the machine does."""
    assert timer() > 0
    counts = timer.counts
    assert counts["generated"] == packets
    assert 0 < counts["on_cpu_ns"] <= counts["elapsed_ns"]
    if any(name.startswith("lost") for name in counts):
        return False
    assert counts["device"] == counts["sink"] == packets
    return True


def test_programs_are_placed_anew_and_packets_still_arrive() -> None:
    subjects = [
        subject("tx", "tx-drop", action=XDP_TX),
        subject("redirect_map", "redirect-drop", action=XDP_REDIRECT),
        subject("drop", "drop"),
    ]
    with LiveEngine().open(subjects, Method.LIVE) as session:
        for _ in range(3):
            session.place([one.key for one in subjects])
            for one in subjects:
                timer = session.timer(one.key)
                assert any(are_all_there(timer, PACKETS["frames"]) for _ in range(5))
                assert session.placement(one.key) in {-1, *range(0, 64, 4)}
                assert session.run(one.key).retval == one.action


def test_other_peoples_programs_are_counted_by_the_driver() -> None:
    access = Subject(
        "parse", shipped_object("packet_access"), "parse_ip_dpa", FRAME, action=XDP_DROP,
        datapath={"way": "drop", "generator": "frames"},
    )  # fmt: skip
    alone = Subject(
        "alone", shipped_object("packet_access"), "parse_ip_dpa", FRAME, action=XDP_DROP,
        datapath={"way": "live-frames"},
    )  # fmt: skip
    with LiveEngine().open([access, alone], Method.LIVE) as session:
        assert session.missing == {}
        session.place(["parse", "alone"])
        for key in ("parse", "alone"):
            timer = session.timer(key)
            assert any(are_all_there(timer, PACKETS["frames"]) for _ in range(5))


def test_generic_mode_is_measured_where_the_generator_reaches_it() -> None:
    subjects = [
        subject("tx", "tx-drop", generator, XDP_TX, "generic")
        for generator in ("ring", "frames", "skb")
    ]
    with LiveEngine().open(subjects, Method.LIVE) as session:
        # Kernels that mark what BPF redirected have it pass generic programs by: nobody would
        # have measured it.
        assert set(session.missing) <= {subjects[2].key}
        assert all("the path tx-drop loses its" in why for why in session.missing.values())
        for one in subjects[:2]:
            timer = session.timer(one.key)
            assert any(are_all_there(timer, PACKETS[one.datapath["generator"]]) for _ in range(5))


def test_napi_in_threads_loses_nothing_unsaid() -> None:
    one = subject("drop", "drop")
    with LiveEngine({"napi": "threaded"}).open([one], Method.LIVE) as session:
        timer = session.timer(one.key)
        timer()
        lost = sum(count for name, count in timer.counts.items() if name.startswith("lost: "))
        assert timer.counts["sink"] + lost == timer.counts["generated"]


def test_a_way_on_which_nothing_arrives_any_more_is_an_error() -> None:
    one = subject("drop", "drop")
    with LiveEngine().open([one], Method.LIVE) as session:
        route = session._routes[one.key]  # type: ignore[attr-defined]
        route._topology.detach("v0")
        with pytest.raises(KernelError, match="none arrived"):
            session.timer(one.key)()


def test_the_thread_gets_its_cpus_and_its_priority_back() -> None:
    before = os.sched_getaffinity(0), os.sched_getscheduler(0)
    with LiveEngine().open([subject("drop", "drop")], Method.LIVE) as session:
        session.timer("drop/drop/frames/native")()
        assert len(os.sched_getaffinity(0)) == 1
        assert os.sched_getscheduler(0) == before[1]
    assert (os.sched_getaffinity(0), os.sched_getscheduler(0)) == before


def test_the_packet_method_is_the_kernel_engines() -> None:
    one = Subject("p", shipped_object("packet_access"), "no_touch", FRAME, action=XDP_DROP)
    with LiveEngine().open([one], Method.PACKET) as session:
        session.place(["p"])
        assert session.timer("p")() > 0
