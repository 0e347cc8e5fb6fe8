"""What a run's own samples say against its figures: the warnings that only measuring gives.

What the machine says against them beforehand is in kernel/disturbances.py.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from xdplab.records import TOO_FEW_LOADS, Result, Warning
from xdplab.stats import quads

_DOUBLING_TOLERANCE = 0.05
"""As the kernel's own bench: twice the work must take twice the time within this part."""

_CLOCK_TOLERANCE = 0.03
"""How far the middle four fifths of the clock readings may spread before it is worth a word."""

_READINGS = 20

_CPU_SHARE = 0.9
"""Of the time that a live path took, how much its generator's thread must have run."""
_PREEMPTED_SHARE = 0.1
"""Share of timed calls that other tasks may break into before it is worth a word: the kernel's own
threads take the CPU now and then on every machine."""


def noticed(results: Sequence[Result], doubles: Sequence[tuple[str, str]]) -> list[Warning]:
    """Warnings on the results of one group. `doubles` are pairs of variants of which the second
    does the first's work twice."""
    return [
        *_too_few(results),
        *_preempted(results),
        *_clock_moved(results),
        *_gross_not_linear(results),
        *_doubled(results, doubles),
        *_off_cpu(results),
        *_lost(results),
    ]


def _too_few(results: Sequence[Result]) -> list[Warning]:
    # A row that a stop came before has its note, and no figure to warn of.
    few = [result for result in results if result.verdict == TOO_FEW_LOADS and result.estimate]
    if not few:
        return []
    return [
        Warning(
            "too-few-loads",
            f"{few[0].suite}: {len(few)} of {len(results)} figures ({few[0].method} method) come "
            "from fewer than 5 loads and have no interval",
            "give --time more seconds, or ask for fewer sizes",
        )
    ]


def _preempted(results: Sequence[Result]) -> list[Warning]:
    trials = [trial for result in results for trial in result.trials]
    lost = sum(trial.preempted for trial in trials)
    kept = sum(len(trial.variant_ns) + len(trial.baseline_ns) for trial in trials)
    if not lost or lost <= _PREEMPTED_SHARE * (lost + kept):
        return []
    return [
        Warning(
            "preempted",
            f"{results[0].suite}: other tasks took the CPU in {lost} of {lost + kept} timed "
            f"calls ({results[0].method} method), which were made again: figures hold fewer "
            "loads, and what others leave in the caches",
            "stop other work, or keep it off the CPU of the run (taskset)",
        )
    ]


def _clock_moved(results: Sequence[Result]) -> list[Warning]:
    clocks = sorted(
        trial.clock_ghz
        for result in results
        for trial in result.trials
        if trial.clock_ghz is not None
    )
    if len(clocks) < _READINGS:
        return []
    low, high = clocks[len(clocks) // 10], clocks[-1 - len(clocks) // 10]
    if high - low <= _CLOCK_TOLERANCE * statistics.median(clocks):
        return []
    return [
        Warning(
            "clock",
            f"{results[0].suite}: the clock moved between {low:.2f} and {high:.2f} GHz "
            f"({results[0].method} method): nanoseconds follow it, from run to run as well",
            "compare runs in cycles, which do not, or hold the clock (cpupower frequency-set)",
        )
    ]


def _gross_not_linear(results: Sequence[Result]) -> list[Warning]:
    """Gross figures of packets: the trial's variant did the baseline's work twice."""
    ratios = {}
    for result in results:
        gross = result.metric == "gross_ns" and result.method in {"packet", "live"}
        if gross and result.verdict != TOO_FEW_LOADS and result.trials:
            ratio = statistics.median(quads.doubling_ratio(trial) for trial in result.trials)
            if abs(ratio / 2 - 1) > _DOUBLING_TOLERANCE:
                ratios[_named(result)] = ratio
    if not ratios:
        return []
    worst = max(ratios, key=lambda name: abs(ratios[name] - 2))
    return [
        Warning(
            "doubling",
            f"{results[0].suite}: twice the packets took not twice the time within 5 % for "
            f"{len(ratios)} program{'s' * (len(ratios) > 1)}, worst {ratios[worst]:.2f} times for "
            f"{worst}",
            "distrust their gross figures: something else took time; measure again when quiet",
        )
    ]


def _doubled(results: Sequence[Result], doubles: Sequence[tuple[str, str]]) -> list[Warning]:
    found = []
    costs = {
        (result.variant, result.baseline, tuple(sorted(result.parameters.items()))): result
        for result in results
        if result.metric == "cost_ns" and result.verdict != TOO_FEW_LOADS
    }
    for once_name, twice_name in doubles:
        for (variant, baseline, parameters), twice in costs.items():
            once = costs.get((once_name, baseline, parameters))
            if variant != twice_name or once is None or not once.estimate or not twice.estimate:
                continue
            one_ns, two_ns = once.estimate.point, twice.estimate.point
            if one_ns > 0 and abs(two_ns / one_ns / 2 - 1) <= _DOUBLING_TOLERANCE:
                continue
            # There is no such thing as times what costs nothing.
            cost = f"{two_ns / one_ns:.2f} times one" if one_ns > 0 else f"{two_ns:.2f} ns"
            than = "2 within 5 %" if one_ns > 0 else f"twice {one_ns:.2f} ns"
            found.append(
                Warning(
                    "doubling",
                    f"{once.suite}: two of {_named(once)} in a row cost {cost}, not {than}: "
                    "the cost depends on what runs around it",
                    "read the figure as the cost of the first, not of each of several",
                )
            )
    return found


def _off_cpu(results: Sequence[Result]) -> list[Warning]:
    """Gross figures of live paths: the generator's thread has all to do, and should have its CPU.

    Other rows may leave it to threads that take the packets.
    """
    shares = {
        _named(result): statistics.median(
            trial.counts["on_cpu_ns"] / trial.counts["elapsed_ns"] for trial in result.trials
        )
        for result in results
        if result.metric == "gross_ns" and result.count("elapsed_ns")
    }
    worst = min(shares, key=lambda name: shares[name], default="")
    if not worst or shares[worst] >= _CPU_SHARE:
        return []
    return [
        Warning(
            "off-cpu",
            f"{results[0].suite}: the generator had its CPU {100 * shares[worst]:.0f} % of the "
            f"time (worst: {worst}): rates are of what it had",
            "stop what else runs on that CPU, or run xdplab with the right to real-time priority",
        )
    ]


def _lost(results: Sequence[Result]) -> list[Warning]:
    lost = {
        _named(result): result.count("generated") - result.count("sink")
        for result in results
        if result.count("generated") > result.count("sink")
    }
    if not lost:
        return []
    made = sum(result.count("generated") for result in results)
    worst = max(lost, key=lambda name: lost[name])
    return [
        Warning(
            "packets-lost",
            f"{results[0].suite}: {sum(lost.values())} of {made} packets did not arrive at the end "
            f"of their way, in {len(lost)} rows (most: {worst}): a packet's time is that of those "
            "that arrived",
            "have fewer threads on the way (--datapath napi=inline), or stop other work",
        )
    ]


def _named(result: Result) -> str:
    where = " ".join(str(value) for value in result.parameters.values())
    return f"{result.variant} {where}".strip()
