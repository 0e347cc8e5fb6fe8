"""How often `xdplab compare` finds a difference where there is none.

    .venv/bin/python benchmarks/compare_alarms.py [--runs 10] [--seconds 4] [--suite NAME ...]
                                                  [--engine kernel] [--store FILE] [--json FILE]

Runs of the same thing, one after the other on this machine, are compared with one another by the
code of the command: every pair, and a third of the runs against another third, as sides of
several. A comparison alarms where any of its rows is resolved, in either direction;
`--fail-above 0%` alarms where one is resolved for the worse. Verdicts take all rows together, so
that at most one comparison in twenty should. Rows by themselves are judged as well, each by its
own interval and the runs' resolution, the clock not asked: what a reader does who looks at one row
alone. The price of
few alarms is what goes unseen: the median half width of the rows' differences, in percent.

And does it find what is there? Where adjust-head was run, the helper of one run is compared with
the helper and clearing of another: some 0.25 ns at 20 bytes, 1.3 ns at 200 on one machine.

What differs from run to run beyond what a run's own interval knows is told as well: of each row
the variance of the runs' points less that of their own errors, as a standard deviation in percent
of the figure. It is what comparison.ALLOWANCE stands for where a side is one run.

Pairs share runs and are not independent: ten runs make 45 pairs of ten fates. --store FILE keeps
the runs there and takes in those that are there already with the same tag, so that runs of
several hours and boots may be judged together.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from xdplab.comparison import Comparison, Side, compare, in_columns, worse_than
from xdplab.records import RESOLVED, TOO_FEW_LOADS, Document
from xdplab.stats import student
from xdplab.store.store import Store

TAG = "alarms"
MOST_RUNS = 1000
MOST_NAMED = 5
LEAST_RUNS = 5
"""Runs that a variance is taken of, at least."""
SMALLEST_TIMES = 5
"""How many times its resolution a figure is, at least, of which a share is taken."""
EMPTY, PLAIN, CLEARED = "empty", "helper", "helper+memset-constant"
"""Variants of adjust-head: with the operation method both are net of the empty loop."""


@dataclass(slots=True)
class Tally:
    """What came of comparisons of one sort."""

    name: str
    comparisons: int = 0
    alarms: int = 0
    gate_alarms: int = 0
    rows: int = 0
    resolved_rows: int = 0
    rows_alone: int = 0
    half_widths_percent: list[float] = field(default_factory=list)
    of_rows: Counter[str] = field(default_factory=Counter)

    def add(self, comparison: Comparison) -> None:
        """Count one comparison of runs between which nothing was changed."""
        judged = [row for row in comparison.rows if row.verdict != TOO_FEW_LOADS]
        if not judged:
            return
        found = [row for row in judged if row.verdict == RESOLVED]
        self.comparisons += 1
        self.alarms += bool(found)
        self.gate_alarms += bool(worse_than(comparison, 0, "%"))
        self.rows += len(judged)
        self.resolved_rows += len(found)
        self.rows_alone += sum(
            not row.change.low <= 0 <= row.change.high and abs(row.change.point) > row.resolution
            for row in judged
        )
        self.half_widths_percent += [
            row.percent.half_width for row in judged if row.percent is not None
        ]
        self.of_rows.update(f"{row.result.variant} ({row.result.method})" for row in found)


def measure(store: Path, suites: Sequence[str], engine: str, seconds: float, runs: int) -> None:
    """`runs` runs by the installed command, each in a process of its own, into the store."""
    for number in range(runs):
        print(f"run {number + 1} of {runs} ...", file=sys.stderr)
        called = subprocess.run(
            [
                *(sys.executable, "-m", "xdplab", "run", *suites, "--engine", engine),
                *("--time", str(seconds), "--store", str(store), "--tag", TAG),
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
        if called.returncode:
            sys.exit(f"run {number + 1} failed: {called.stderr.strip()}")


def tallies(documents: Sequence[Document]) -> list[Tally]:
    """Pairs in ns and in cycles, and thirds of the runs against one another."""
    pairs = [Tally("one run a side, ns"), Tally("one run a side, cycles")]
    for one, other in itertools.combinations(documents, 2):
        for tally, cycles in zip(pairs, (False, True), strict=True):
            tally.add(_compared([one], [other], cycles))
    size = len(documents) // 3
    several = Tally(f"{size} runs a side, ns")
    if size > 1:
        # Neighbours in time, whom a slow drift sets apart, and runs dealt out in turn, whom not.
        neighbours = [documents[start : start + size] for start in range(0, 3 * size, size)]
        dealt = [documents[: 3 * size][start::3] for start in range(3)]
        for groups in (neighbours, dealt):
            for first, second in itertools.combinations(groups, 2):
                several.add(_compared(first, second, False))
    return [tally for tally in (*pairs, several) if tally.comparisons]


def found_again(documents: Sequence[Document]) -> dict[str, tuple[int, int]]:
    """Of adjust-head, what clearing adds, between runs: size -> (found, tried)."""
    counts: dict[str, tuple[int, int]] = {}
    for before, after in itertools.permutations(documents, 2):
        cleared = [
            replace(result, variant=PLAIN)
            for result in after.results
            if (result.variant, result.baseline) == (CLEARED, EMPTY)
        ]
        plain = [
            result
            for result in before.results
            if (result.variant, result.baseline) == (PLAIN, EMPTY)
        ]
        if not cleared or not plain:
            continue
        comparison = _compared(
            [replace(before, results=tuple(plain))], [replace(after, results=tuple(cleared))], False
        )
        for row in comparison.rows:
            name = ", ".join(f"{k} {v}" for k, v in row.result.parameters.items())
            seen, tried = counts.get(name, (0, 0))
            counts[name] = (seen + (row.verdict == RESOLVED and row.is_worse), tried + 1)
    return counts


def between_runs(documents: Sequence[Document], cycles: bool) -> list[float]:
    """What each row's points vary by beyond their own errors: variances as shares of the figure's
    square. Below zero where runs agree better than their intervals say, which chance does."""
    found = []
    for result, figures in in_columns([Side(d.run.id, [d]) for d in documents], cycles):
        known = [one for one in figures if one is not None and math.isfinite(one.half_width)]
        middle = abs(statistics.median(one.point for one in known)) if known else 0.0
        # Of a figure near nothing a share says nothing.
        if len(known) < LEAST_RUNS or middle <= SMALLEST_TIMES * (result.resolution or 0.0):
            continue
        own = statistics.fmean(
            (one.half_width / student.quantile(max(one.n - 1, 1), one.level)) ** 2 for one in known
        )
        found.append((statistics.variance(one.point for one in known) - own) / middle**2)
    return found


def show_between_runs(documents: Sequence[Document]) -> None:
    """A line for ns and one for cycles."""
    for unit, cycles in (("ns", False), ("cycles", True)):
        shares = sorted(between_runs(documents, cycles))
        if not shares:
            continue
        parts = [100 * math.sqrt(max(share, 0.0)) for share in shares]
        together = 100 * math.sqrt(max(statistics.fmean(shares), 0.0))
        print(
            f"between runs, {unit}, standard deviations of {len(parts)} rows in % of the figure: "
            f"median {statistics.median(parts):.2f}, nine of ten below "
            f"{parts[math.ceil(0.9 * len(parts)) - 1]:.2f}, all together {together:.2f}"
        )


def _compared(one: Sequence[Document], other: Sequence[Document], cycles: bool) -> Comparison:
    return compare(Side("one", one), Side("other", other), cycles=cycles)


def show(found: Iterable[Tally]) -> None:
    """A line a tally, and the rows that alarmed most."""
    print("sides, comparisons, alarms, of --fail-above 0%, rows judged, resolved, each row alone")
    for tally in found:
        upper = upper_bound(tally.alarms, tally.comparisons)
        alone = 100 * tally.rows_alone / tally.rows
        print(
            f"{tally.name}: {tally.comparisons}, {tally.alarms} (were they independent, below "
            f"{100 * upper:.1f} % with 95 % confidence), {tally.gate_alarms}, {tally.rows}, "
            f"{tally.resolved_rows}, {tally.rows_alone} ({alone:.2f} %)"
        )
        if tally.half_widths_percent:
            print(f"    half of the rows: +-{statistics.median(tally.half_widths_percent):.2f} %")
        for name, count in tally.of_rows.most_common(MOST_NAMED):
            print(f"    {name}: {count}")


def upper_bound(alarms: int, comparisons: int) -> float:
    """The one-sided 95 % bound of a share (Clopper and Pearson, Biometrika 26, 1934)."""
    from scipy import stats

    if alarms >= comparisons:
        return 1.0
    bound = float(stats.beta.ppf(0.95, alarms + 1, comparisons - alarms))
    return bound if math.isfinite(bound) else 1.0


def main() -> None:
    """Measure, compare, print."""
    parser = argparse.ArgumentParser(description="How often compare alarms for nothing.")
    parser.add_argument("--runs", type=int, default=10, help="0 judges what --store has")
    parser.add_argument("--seconds", type=float, default=4.0, help="of each suite in each run")
    parser.add_argument("--suite", nargs="+", default=["adjust-head", "packet-access"])
    parser.add_argument("--engine", default="kernel")
    parser.add_argument("--store", type=Path, help="keep the runs here")
    parser.add_argument("--json", type=Path, help="write the tallies here as well")
    chosen = parser.parse_args()
    if not 0 <= chosen.runs <= MOST_RUNS:
        parser.error(f"--runs takes 0 to {MOST_RUNS}")
    with tempfile.TemporaryDirectory() as folder:
        store = chosen.store or Path(folder) / "alarms.sqlite"
        measure(store, chosen.suite, chosen.engine, chosen.seconds, chosen.runs)
        with Store(store) as opened:
            documents = [opened.document(run_id) for run_id in opened.resolve(TAG)]
    if len(documents) < 2:
        parser.error("two runs at least make a comparison")
    found = tallies(documents)
    show(found)
    show_between_runs(documents)
    for name, (seen, tried) in found_again(documents).items():
        print(f"clearing, {name}: {seen} of {tried} found")
    if chosen.json:
        chosen.json.write_text(json.dumps([asdict(tally) for tally in found], indent=1) + "\n")


if __name__ == "__main__":
    main()
