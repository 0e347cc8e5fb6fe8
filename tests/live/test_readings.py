"""Counts and their differences, without a kernel."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xdplab.live.readings import ACTIONS, Counts, Reading, busy_cpus, by_action

CPUS = 3
KEYS = (
    ("xdp_exception", "XDP_ABORTED"),
    ("xdp_exception", "XDP_TX"),
    ("xdp_redirect_err", "ENETDOWN"),
    ("xdp_devmap_xmit", "sent"),
    ("xdp_devmap_xmit", "dropped, ENXIO"),
)
NUMBER = st.integers(0, 1 << 40)


def counts() -> st.SearchStrategy[Counts]:
    return st.tuples(*[st.tuples(*[NUMBER] * len(ACTIONS))] * CPUS)


READINGS = st.builds(
    Reading,
    seconds=st.floats(0, 1e6),
    received=counts(),
    behind=counts(),
    queues=st.tuples(NUMBER, NUMBER),
    # A tracepoint's count is there from its first event on.
    events=st.dictionaries(st.sampled_from(KEYS), st.tuples(*[NUMBER] * CPUS)),
    drivers=st.fixed_dictionaries({"v1": st.fixed_dictionaries({"drops": NUMBER})}),
)


def added(reading: Reading, more: Reading) -> Reading:
    """What is counted when `more` comes after `reading`."""

    def sums(one: Counts, other: Counts) -> Counts:
        return tuple(
            tuple(a + b for a, b in zip(x, y, strict=True)) for x, y in zip(one, other, strict=True)
        )

    none = (0,) * CPUS
    return Reading(
        seconds=reading.seconds + more.seconds,
        received=sums(reading.received, more.received),
        behind=sums(reading.behind, more.behind),
        queues=sums((reading.queues,), (more.queues,))[0],
        events={
            key: sums((reading.events.get(key, none),), (more.events.get(key, none),))[0]
            for key in (*reading.events, *more.events)
        },
        drivers={"v1": {"drops": reading.drivers["v1"]["drops"] + more.drivers["v1"]["drops"]}},
    )


@given(READINGS, READINGS)
def test_what_came_after_a_reading_is_what_was_added_to_it(first: Reading, more: Reading) -> None:
    came = added(first, more).since(first)
    assert came.seconds == pytest.approx(more.seconds, abs=1e-3)
    assert (came.received, came.behind, came.queues) == (more.received, more.behind, more.queues)
    assert came.drivers == more.drivers
    for key in KEYS:
        assert came.event(*key) == more.event(*key)


@given(READINGS)
def test_totals_are_the_sums_of_their_parts(reading: Reading) -> None:
    assert reading.packets == sum(reading.actions().values()) == sum(map(sum, reading.received))
    busy = set(busy_cpus(reading))
    for cpu in range(CPUS):
        here = [*reading.received[cpu], *reading.behind[cpu]]
        here += [by_cpu[cpu] for by_cpu in reading.events.values()]
        assert (cpu in busy) == any(here)


@given(READINGS)
def test_a_loss_is_counted_once(reading: Reading) -> None:
    expected = {
        "XDP_ABORTED": by_action(reading.received)["XDP_ABORTED"],
        "XDP_ABORTED behind the redirect": by_action(reading.behind)["XDP_ABORTED"],
        # The tracepoint tells of the same XDP_ABORTED again, and of what could not be sent.
        "xdp_exception XDP_TX": reading.event("xdp_exception", "XDP_TX"),
        "xdp_redirect_err ENETDOWN": reading.event("xdp_redirect_err", "ENETDOWN"),
        "xdp_devmap_xmit dropped, ENXIO": reading.event("xdp_devmap_xmit", "dropped, ENXIO"),
    }
    assert reading.losses() == {cause: packets for cause, packets in expected.items() if packets}


def test_no_time_is_no_rate() -> None:
    nothing = Reading(0.0, ((0,) * 5,), ((0,) * 5,), (), {}, {})
    assert nothing.rate_pps == 0.0
    assert replace(nothing, seconds=2.0, received=((1, 2, 3, 4, 0),)).rate_pps == 5.0
