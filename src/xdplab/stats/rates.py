"""Rates of packets that were counted over intervals. Pure.

A count is exact and has no distribution of its own; what varies is the traffic. So the point is
all packets over all time, and low and high are the slowest and the fastest interval, at level 1.0.
What is left over when a command ends may be a moment in which a burst came: intervals of less than
half the longest one are no slowest or fastest.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdplab.records import Estimate, Trial

METHOD = "intervals"
"""Result.method of rates; their trials have no timed calls, but counts."""
PACKETS = "packets"
ELAPSED_NS = "elapsed_ns"
"""What `counts` of each such trial has: packets, and the nanoseconds in which they came."""


def rate(trials: Sequence[Trial]) -> Estimate | None:
    """Packets a second over intervals; None where no time passed in any."""
    timed = [trial.counts for trial in trials if trial.counts.get(ELAPSED_NS, 0) > 0]
    if not timed:
        return None
    longest_ns = max(counts[ELAPSED_NS] for counts in timed)
    rates = [
        1e9 * counts.get(PACKETS, 0) / counts[ELAPSED_NS]
        for counts in timed
        if 2 * counts[ELAPSED_NS] >= longest_ns
    ]
    packets = sum(counts.get(PACKETS, 0) for counts in timed)
    point = 1e9 * packets / sum(counts[ELAPSED_NS] for counts in timed)
    # Rounding may put the mean of equal rates a hair beside them.
    return Estimate(point, min(point, *rates), max(point, *rates), 1.0, len(rates))
