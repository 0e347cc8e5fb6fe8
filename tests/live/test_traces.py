"""A tracepoint that a kernel lacks costs its own count, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.live.commands import live, send
from tests.live.pairs import join, places
from xdplab.live import traces
from xdplab.live.traces import EVENTS, Traces
from xdplab.packets.frame import udp_frame
from xdplab.program.shipped import shipped_object

pytestmark = pytest.mark.needs_kernel


def test_a_missing_tracepoint_is_named_and_the_others_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    event = EVENTS["xdp_bulk_tx"]
    gone = traces._Event(event.place, [("on_bulk_tx", "xdp_was_removed")], event.fixed, event.by)
    monkeypatch.setattr(traces, "EVENTS", {**EVENTS, "xdp_bulk_tx": gone})
    with places(2) as (a, b):
        join(a, "v0", b, "v1")
        with b.namespace:
            counting = Traces(["xdp_exception", "xdp_bulk_tx"], [b.ifindex("v1")])
        try:
            assert counting.missing == {
                "xdp_bulk_tx": "tracepoint xdp_was_removed: this kernel has none"
            }
            with live(b, "drop", "v1", "-p", "parse-ip") as drop:
                send(a, "v0", udp_frame("ipv4", 60).data[:16], 7)
                drop.stop_quietly()
            found = counting.read()
        finally:
            counting.close()
    assert {key: sum(by_cpu) for key, by_cpu in found.items()} == {
        ("xdp_exception", "XDP_ABORTED"): 7
    }


def test_events_of_other_interfaces_and_namespaces_do_not_count() -> None:
    with places(3) as (a, b, c):
        join(a, "v0", b, "v1")
        join(a, "w0", b, "w1", pair=1)
        # The same ifindex as v1's, elsewhere.
        join(a, "u0", c, "u1", pair=2)
        assert c.ifindex("u1") == b.ifindex("v1")
        with c.namespace:
            elsewhere = Traces(["xdp_exception"], [c.ifindex("u1")])
        with b.namespace:
            beside = Traces(["xdp_exception"], [b.ifindex("w1")])
            here = Traces(["xdp_exception"], [b.ifindex("w1"), b.ifindex("v1")])
        try:
            with live(b, "drop", "v1", "-p", "parse-ip") as drop:
                send(a, "v0", udp_frame("ipv4", 60).data[:16], 3)
                drop.stop_quietly()
            assert [one.read() for one in (elsewhere, beside)] == [{}, {}]
            assert [sum(by_cpu) for by_cpu in here.read().values()] == [3]
        finally:
            for one in (elsewhere, beside, here):
                one.close()


def test_every_event_has_a_program_in_the_object_and_one_of_its_tracepoints_is_here() -> None:
    spec = shipped_object("live_trace")
    for event in EVENTS.values():
        for program, tracepoint in event.sources:
            assert spec.programs[program].section == f"raw_tracepoint/{tracepoint}"
    assert spec.maps["events"].max_entries == len(EVENTS)
    assert {event.place for event in EVENTS.values()} == set(range(len(EVENTS)))
    if not Path("/sys/kernel/btf/vmlinux").exists():
        pytest.skip("this kernel shows no BTF, so that nothing can be traced")
    counting = Traces(list(EVENTS), [1])
    counting.close()
    assert not counting.missing
