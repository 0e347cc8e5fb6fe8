"""Loops over a socket's packets that are bounded by a time, a number or a word from outside."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from xdplab.net.xsk.abi import XDP_PKT_CONTD
from xdplab.net.xsk.socket import Xsk

_NAP_S = 0.1
"""The longest sleep, after which `stop` is asked again."""

_MAC_BYTES = 12

_SHORTEST_S, _LONGEST_S = 20e-6, 500e-6
"""How long `drop_loop` lets packets gather. The longest is what a ring of 8192 takes at 16 Mpps."""


@dataclass(slots=True)
class Tally:
    """What loops have done since it was made; they add to it as they go.

    `packets` and `bytes` were received, `sent` were sent back, `naps` are sleeps for want of
    packets.
    """

    packets: int = 0
    bytes: int = 0
    sent: int = 0
    batches: int = 0
    naps: int = 0


def drop_loop(
    xsk: Xsk,
    tally: Tally,
    *,
    seconds: float | None = None,
    packets: int | None = None,
    stop: Callable[[], bool] | None = None,
) -> None:
    """Receive and give back at once, until the time is over, or so many packets came, or `stop()`.

    It may be called again and again: nothing is lost between calls that the rings can hold. What
    came beyond `packets` in the last round is dropped and counted as well.

    Rounds cost the same however many packets they have, so packets are let gather, for half a
    millisecond at most, until they fill half the ring. Small rings stay in the processor's cache,
    where the kernel writes much quicker; large ones bear longer without the processor.
    """
    rx, fill = xsk.rx, xsk.fill
    frags = xsk.frags
    goal = None if packets is None else tally.packets + packets
    until = _deadline(seconds)
    gather_s = _SHORTEST_S
    while _goes_on(tally, goal, until, stop):
        count = rx.available()
        if not count:
            _sleep(xsk, tally, until)
            continue
        if 2 * count < rx.entries:
            time.sleep(gather_s)
            count = rx.available()
            if 2 * count < rx.entries:
                gather_s = min(gather_s * 1.1, _LONGEST_S)
            else:
                gather_s = max(gather_s * 0.5, _SHORTEST_S)
        descriptors = rx.peek(count)
        fill.put(descriptors["addr"])
        tally.bytes += int(descriptors["len"].sum(dtype=np.int64))
        more = np.count_nonzero(descriptors["options"] & XDP_PKT_CONTD) if frags else 0
        rx.release(count)
        tally.packets += count - int(more)
        tally.batches += 1


def send_back_loop(
    xsk: Xsk,
    tally: Tally,
    *,
    seconds: float | None = None,
    packets: int | None = None,
    stop: Callable[[], bool] | None = None,
) -> None:
    """As `drop_loop`, but packets go back by the same queue, their MAC addresses swapped.

    What the tx ring has no room for is dropped: `tally.sent` counts what was handed over.
    """
    goal = None if packets is None else tally.packets + packets
    until = _deadline(seconds)
    while _goes_on(tally, goal, until, stop):
        batch = xsk.receive(xsk.tx.entries)
        if not len(batch):
            xsk.kick()
            _sleep(xsk, tally, until)
            continue
        with batch:
            tally.packets += len(batch)
            tally.bytes += int(batch.lengths.sum())
            tally.batches += 1
            macs = batch.heads(_MAC_BYTES)
            batch.write_heads(np.roll(macs, _MAC_BYTES // 2, axis=1))
            tally.sent += xsk.forward(batch)
        xsk.kick()


def _deadline(seconds: float | None) -> float | None:
    return None if seconds is None else time.monotonic() + seconds


def _goes_on(
    tally: Tally, goal: int | None, until: float | None, stop: Callable[[], bool] | None
) -> bool:
    return not (
        (goal is not None and tally.packets >= goal)
        or (until is not None and time.monotonic() >= until)
        or (stop is not None and stop())
    )


def _sleep(xsk: Xsk, tally: Tally, until: float | None) -> None:
    tally.naps += 1
    xsk.wait(_NAP_S if until is None else min(_NAP_S, until - time.monotonic()))
