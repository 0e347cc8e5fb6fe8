"""The model of veth's receive path: nothing is lost, nothing is made twice, limits are kept."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xdplab.engines.base import XDP_ABORTED, XDP_DROP, XDP_PASS, XDP_REDIRECT, XDP_TX
from xdplab.errors import FrameError, XdplabError
from xdplab.packets.frame import Frame, udp_frame
from xdplab.program.shipped import shipped_object
from xdplab.user.abi import SkbReuse, UserFrame
from xdplab.user.machine import UserObject
from xdplab.user.options import Mode, Options
from xdplab.user.runtime import Host
from xdplab.user.veth_model import CACHE_HEADS, RING_ENTRIES, VethCounts, VethJob, VethModel

PATHS = ("tx_drop", "tx_pass", "redirect_drop", "redirect_pass")
BULK = 16
VETH0, VETH2 = 1, 3
PROGRAM = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_void_p)
FRAME = udp_frame("ipv4", 64)

Decide = Callable[[UserFrame], int]


@pytest.fixture(scope="module")
def model() -> VethModel:
    return VethModel()


@pytest.fixture(scope="module")
def machine() -> Iterator[UserObject]:
    with UserObject(shipped_object("veth_model"), Options(Mode.TIMED)) as loaded:
        yield loaded


class Played:
    """A model whose program is Python: what it decides, and what the job comes to."""

    def __init__(self, model: VethModel, decide: Decide) -> None:
        self._model = model
        self._host = Host()
        self.state = self._host.new_state()
        self.frame = UserFrame(state=ctypes.addressof(self.state))

        def program(_address: int) -> int:
            return decide(self.frame)

        self._program = PROGRAM(program)

    def redirect(self, ifindex: int) -> int:
        self.state.redirect_ifindex = ifindex
        return XDP_REDIRECT

    def job(
        self,
        reuse: SkbReuse,
        packets: int,
        *,
        warmup: int = 0,
        ring_entries: int = RING_ENTRIES,
        budget: int = 64,
        frame: Frame = FRAME,
    ) -> VethJob:
        address = ctypes.cast(self._program, ctypes.c_void_p).value
        assert address is not None
        return self._model.job(
            address,
            self.frame,
            frame,
            skb_reuse=reuse,
            packets=packets,
            warmup=warmup,
            ring_entries=ring_entries,
            budget=budget,
        )


def check_conserved(counts: VethCounts, packets: int) -> None:
    assert counts.generated == counts.polled == packets
    assert counts.forwarded == counts.polled_far
    assert counts.ended == packets
    assert counts.heads_made == counts.heads_free + counts.heads_cached
    assert counts.pages_out == counts.buffers_out == 0


@pytest.mark.parametrize("reuse", SkbReuse)
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("packets", [1, 15, 64, 8000, 8017])
def test_what_is_generated_is_polled_and_sunk(
    model: VethModel, machine: UserObject, path: str, reuse: SkbReuse, packets: int
) -> None:
    program = machine.program(path)
    job = model.job(program.address, machine.frame, FRAME, skb_reuse=reuse, packets=packets)
    assert job() > 0
    counts = job.counts
    check_conserved(counts, packets)
    assert counts.forwarded == packets
    sunk = counts.passed if path.endswith("pass") else counts.dropped
    assert sunk == packets
    # A head that goes back to where it came from leaves the cache as full as it was.
    taken = packets + job.struct.warmup
    cached = -taken % BULK if reuse is SkbReuse.OFF else BULK
    assert counts.heads_cached == cached
    # And what was left behind is nothing to the next run.
    job()
    assert job.counts == counts


def test_reuse_keeps_the_heads_out_of_the_slab(model: VethModel) -> None:
    """As many heads as packets leave the slab without it, one bulk with it."""
    heads: dict[SkbReuse, set[int]] = {}
    for reuse in SkbReuse:
        job = Played(model, lambda frame: XDP_TX if frame.ingress_ifindex == 1 else 2).job(reuse, 1)
        job()
        heads[reuse] = {job.counts.heads_cached}
    assert heads == {SkbReuse.OFF: {BULK - 1}, SkbReuse.NAPI_CACHE: {BULK}}


@pytest.mark.parametrize("reuse", SkbReuse)
@pytest.mark.parametrize(
    ("near", "far", "expected"),
    [
        (XDP_TX, XDP_DROP, {"forwarded": 300, "dropped": 300}),
        (XDP_TX, XDP_PASS, {"forwarded": 300, "passed": 300}),
        (XDP_TX, XDP_ABORTED, {"forwarded": 300, "dropped": 300}),
        (XDP_TX, XDP_TX, {"forwarded": 300, "refused": 300}),
        (XDP_DROP, XDP_PASS, {"dropped": 300}),
        (XDP_ABORTED, XDP_PASS, {"dropped": 300}),
        (77, XDP_PASS, {"dropped": 300}),
        (XDP_PASS, XDP_DROP, {"passed": 300}),
    ],
)
def test_every_action_ends_where_it_says(
    model: VethModel, near: int, far: int, expected: dict[str, int], reuse: SkbReuse
) -> None:
    def decide(frame: UserFrame) -> int:
        return near if frame.ingress_ifindex == VETH0 else far

    job = Played(model, decide).job(reuse, 300)
    job()
    check_conserved(job.counts, 300)
    ends = ("forwarded", "dropped", "passed", "lost", "refused")
    found = {name: getattr(job.counts, name) for name in ends}
    assert {name: count for name, count in found.items() if count} == expected


@pytest.mark.parametrize(("ifindex", "accepted"), [(VETH2, 200), (2, 0), (4, 0), (0, 0), (259, 0)])
@pytest.mark.parametrize("reuse", SkbReuse)
def test_redirect_goes_to_an_interface_that_has_a_peer(
    model: VethModel, ifindex: int, accepted: int, reuse: SkbReuse
) -> None:
    def decide(frame: UserFrame) -> int:
        return played.redirect(ifindex) if frame.ingress_ifindex == VETH0 else XDP_PASS

    played = Played(model, decide)
    job = played.job(reuse, 200)
    job()
    check_conserved(job.counts, 200)
    assert (job.counts.passed, job.counts.refused) == (accepted, 200 - accepted)


@given(
    reuse=st.sampled_from(SkbReuse),
    packets=st.integers(0, 400),
    warmup=st.integers(0, 100),
    ring_entries=st.one_of(st.integers(2, 40), st.integers(2, 256)),
    budget=st.one_of(st.integers(1, 20), st.integers(1, 256)),
    data=st.data(),
)
@settings(max_examples=60, deadline=None)
def test_nothing_is_lost_whatever_programs_decide(
    reuse: SkbReuse,
    packets: int,
    warmup: int,
    ring_entries: int,
    budget: int,
    data: st.DataObject,
) -> None:
    actions = data.draw(st.lists(st.sampled_from([0, 1, 2, 3, 4, 9]), min_size=1, max_size=9))
    turns = iter(range(1 << 30))

    def decide(_frame: UserFrame) -> int:
        action = actions[next(turns) % len(actions)]
        return played.redirect(VETH2) if action == XDP_REDIRECT else action

    played = Played(VethModel(), decide)
    job = played.job(reuse, packets, warmup=warmup, ring_entries=ring_entries, budget=budget)
    job()
    check_conserved(job.counts, packets)


@pytest.mark.parametrize("reuse", SkbReuse)
@pytest.mark.parametrize("early", [0, 5, 16, 21])
def test_a_full_ring_loses_what_it_has_no_room_for(
    model: VethModel, early: int, reuse: SkbReuse
) -> None:
    """Consumed entries are emptied by the sixteen: until then a ring has no room there."""
    turns = iter(range(1 << 30))

    # One poll sends few, so that the next one finds the ring as they left it.
    def few_then_all(frame: UserFrame) -> int:
        if frame.ingress_ifindex != VETH0:
            return XDP_PASS
        turn = next(turns)
        return XDP_TX if turn < early or turn >= RING_ENTRIES else XDP_DROP

    job = Played(model, few_then_all).job(reuse, 2 * RING_ENTRIES, budget=RING_ENTRIES)
    job()
    counts = job.counts
    check_conserved(counts, 2 * RING_ENTRIES)
    assert counts.lost == early % BULK
    assert counts.passed == early + RING_ENTRIES - early % BULK
    assert counts.dropped == RING_ENTRIES - early


@pytest.mark.parametrize("reuse", SkbReuse)
@pytest.mark.parametrize("ring_entries", [2, 3, 17, 31, 32, 33])
def test_a_small_ring_makes_more_polls_and_loses_nothing(
    model: VethModel, machine: UserObject, ring_entries: int, reuse: SkbReuse
) -> None:
    program = machine.program("tx_pass")
    job = model.job(
        program.address,
        machine.frame,
        FRAME,
        skb_reuse=reuse,
        packets=1000,
        ring_entries=ring_entries,
        budget=1,
    )
    job()
    check_conserved(job.counts, 1000)
    assert job.counts.passed == 1000


def test_a_redirect_names_its_interface_each_time(model: VethModel) -> None:
    """One interface after the other, and none at all: what was named before does not count."""
    turns = iter(range(1 << 30))
    far = []

    def decide(frame: UserFrame) -> int:
        if frame.ingress_ifindex != VETH0:
            far.append(frame.ingress_ifindex)
            return XDP_DROP
        turn = next(turns) % 3
        return XDP_REDIRECT if turn == 2 else played.redirect((VETH0, VETH2)[turn])

    played = Played(model, decide)
    job = played.job(SkbReuse.NAPI_CACHE, 300)
    job()
    check_conserved(job.counts, 300)
    assert job.counts.refused == 100
    # Each at the peer of the interface that it was sent to.
    assert (far.count(2), far.count(4)) == (100, 100)


def stack_reads(data: bytes) -> int:
    """What the model's stack sums up of a packet: EtherType, and bytes of the header behind it."""
    number = int.from_bytes
    return number(data[12:14], "little") + data[14] + number(data[26:30], "little")


def test_programs_see_the_packet_that_was_sent(model: VethModel) -> None:
    seen = []

    def decide(frame: UserFrame) -> int:
        seen.append(
            (
                frame.ingress_ifindex,
                ctypes.string_at(frame.data, frame.data_end - frame.data),
                frame.data_meta - frame.data,
                frame.data - frame.hard_start,
                frame.hard_end - frame.hard_start,
                frame.frag_count,
            )
        )
        frame.data += 4
        frame.data_meta += 4
        return XDP_TX if frame.ingress_ifindex == VETH0 else XDP_PASS

    job = Played(model, decide).job(SkbReuse.NAPI_CACHE, 20)
    job()
    check_conserved(job.counts, 20)
    assert job.counts.seen == 20 * stack_reads(FRAME.data[8:])
    near = (VETH0, FRAME.data, 0, 256, 4096, 0)
    assert seen == 20 * [near] + 20 * [(2, FRAME.data[4:], 0, 260, 4096, 0)]


@given(steps=st.lists(st.integers(-400, 400), max_size=40))
@settings(deadline=None)
def test_the_cache_keeps_its_limit_and_its_heads(steps: list[int]) -> None:
    model = VethModel()
    job = Played(model, lambda _frame: XDP_DROP).job(SkbReuse.NAPI_CACHE, 0)
    # What a plain account of the cache comes to: filled by sixteen, halved at sixty-four.
    taken = cached = highest = 0
    for index in range(len(steps)):
        # Never more than the slabs hold.
        step = steps[index] = min(steps[index], 2000 - taken)
        for _ in range(step):
            cached = (cached or BULK) - 1
            taken += 1
            highest = max(highest, cached)
        for _ in range(min(-step, taken)):
            cached += 1
            taken -= 1
            if cached == CACHE_HEADS:
                cached = CACHE_HEADS // 2
            highest = max(highest, cached)
    most = model.heads(job.struct, steps)
    assert most == highest < CACHE_HEADS
    counts = job.counts
    assert counts.heads_cached == cached
    assert counts.polled == taken
    assert counts.heads_made == counts.heads_free + cached + taken


def test_heads_run_out_at_what_the_slabs_hold(model: VethModel) -> None:
    job = Played(model, lambda _frame: XDP_DROP).job(SkbReuse.NAPI_CACHE, 0)
    model.heads(job.struct, [5000])
    counts = job.counts
    assert (counts.polled, counts.heads_free, counts.heads_cached) == (counts.heads_made, 0, 0)
    model.heads(job.struct, [5000, -5000, 5000, -900, 5000, -5000])
    assert job.counts.polled == 0
    assert job.counts.heads_free + job.counts.heads_cached == counts.heads_made


@pytest.mark.parametrize(("ring_entries", "budget"), [(1, 64), (257, 64), (256, 0), (256, 257)])
def test_a_job_that_cannot_be_is_refused(model: VethModel, ring_entries: int, budget: int) -> None:
    played = Played(model, lambda _frame: XDP_DROP)
    job = played.job(SkbReuse.OFF, 10, ring_entries=ring_entries, budget=budget)
    with pytest.raises(XdplabError, match="cannot run such a job"):
        job()


@pytest.mark.parametrize(
    "frame", [Frame(bytes(33)), Frame(bytes(1515)), Frame(bytes(64), bytes(4))]
)
def test_a_frame_that_is_no_packet_of_the_model_is_named(model: VethModel, frame: Frame) -> None:
    with pytest.raises(FrameError, match=f"a frame of {len(frame.data)} bytes"):
        Played(model, lambda _frame: XDP_DROP).job(SkbReuse.OFF, 10, frame=frame)
