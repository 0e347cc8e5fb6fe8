"""How small a difference can be told, side by side with `bpftool prog run`.

    .venv/bin/python benchmarks/resolution.py [--seconds 10] [--rounds 5] [--json FILE]

Two programs that differ by eight stores (resolution.bpf.c), and the first against a second load
of itself. Each round gives every tool and method `--seconds` for either pair and takes one
estimate of each; rounds take turns, so that a change of the machine meets all of them. The
same statistics judge all: median, bootstrap interval, and what the A/A pair says of them.

What a tool can tell apart is the largest of
  - the step of its figure: bpftool prints whole nanoseconds per run,
  - how far from nothing the interval of its A/A estimate reaches (median over rounds),
  - twice the scatter over rounds of its estimates, of A/A or of B - A.
xdplab's figures are its cycles at the clock of the first round: a clock that moves from round
to round is known to it, and does not make two programs differ. bpftool knows no clock.
bpftool is also given the programs with the loop, which no manual tells one to write: there its
step is a thousandth of a nanosecond, and what is left is what it does not control.

Needs root, a compiler (the extra `compile`, or clang) and, for the comparison, bpftool (Debian:
apt-get install bpftool). Nothing is pinned or mounted: programs go by id and end with us.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from xdplab.engines.base import Method, Subject
from xdplab.engines.kernel import KernelEngine
from xdplab.errors import UsageError, XdplabError
from xdplab.experiment import Stop, run_suite
from xdplab.kernel import bpf, host
from xdplab.kernel.features import require_kernel_engine
from xdplab.kernel.libbpf import LoadedObject
from xdplab.packets.frame import Frame
from xdplab.program import ObjectSpec, compile_object, read_object
from xdplab.records import TWIN, Estimate, Result
from xdplab.stats import estimates
from xdplab.suites.base import Group, Measure, Plan, Suite
from xdplab.suites.table import Column, Figure, Row, Table
from xdplab.views.terminal import make_console, render

HERE = Path(__file__).resolve().parent
HEADERS = HERE.parent / "src" / "xdplab" / "bpf"

FRAME = Frame(bytes(64))
OPERATIONS = 1000
"""As OPERATIONS of xdplab.bpf.h."""

BPFTOOL_STEP_NS = 1.0
BPFTOOL_REPEAT = 1_000_000
"""Runs a call, as its manual's example has it: enough that its own start-up stays small."""

LITTLE = "a-and-eight-stores"
"""Variant name of program B."""

TARGETS = {Method.OPERATION: 50.0, Method.PACKET: 3.0}


@dataclass(slots=True)
class Contender:
    """A tool with a method, and its estimates so far: one of each pair a round, in ns."""

    name: str
    step_ns: float
    same: list[Estimate] = field(default_factory=list)
    little: list[Estimate] = field(default_factory=list)
    clock_ghz: float | None = None

    @property
    def same_scatter_ns(self) -> float:
        """Standard deviation over rounds of the A/A estimates; NaN for a single round."""
        return _scatter(self.same)

    @property
    def little_scatter_ns(self) -> float:
        """The same of the B - A estimates, which a placement that favours one program moves."""
        return _scatter(self.little)

    @property
    def reach_ns(self) -> float:
        """How far from nothing the A/A intervals reach, median over rounds."""
        return statistics.median(estimates.resolution(figure) for figure in self.same)

    @property
    def resolvable(self) -> tuple[float, str]:
        """The smallest difference that this tool can tell in the time it had, in ns, and why."""
        limits = (
            (self.step_ns, "step"),
            (self.reach_ns, "A/A interval"),
            (2 * self.same_scatter_ns, "A/A scatter"),
            (2 * self.little_scatter_ns, "B - A scatter"),
        )
        return max(limit for limit in limits if not math.isnan(limit[0]))

    def to_json(self) -> dict[str, Any]:
        def rows(figures: Sequence[Estimate]) -> list[dict[str, float]]:
            return [{"point": f.point, "low": f.low, "high": f.high, "n": f.n} for f in figures]

        return {
            "step_ns": self.step_ns,
            "same": rows(self.same),
            "little": rows(self.little),
            "reach_ns": self.reach_ns,
            "resolvable_ns": self.resolvable[0],
            "decided_by": self.resolvable[1],
        }


def _scatter(figures: Sequence[Estimate]) -> float:
    points = [figure.point for figure in figures]
    return statistics.stdev(points) if len(points) > 1 else math.nan


def suite(spec: ObjectSpec, method: Method) -> Suite:
    """A suite of two measures: A against itself, and B against A."""
    loop = method is Method.OPERATION
    form, operations = ("loop", OPERATIONS) if loop else ("once", 1)

    def subject(key: str, program: str, instance: int = 0) -> Subject:
        return Subject(
            key, spec, f"{form}_{program}", FRAME, operations=operations, instance=instance
        )

    group = Group(
        method,
        (subject("a", "a"), subject("b", "b"), subject(TWIN, "a", instance=1)),
        (Measure(TWIN, TWIN, {}, "a", "a"), Measure(LITTLE, "b", {}, "a", "a")),
        share=1.0,
    )
    return Suite(
        name="resolution",
        title="what can be told apart",
        options=(),
        plan=lambda _values, _engine: Plan((group,)),
        tables=lambda _results, _notes: (),
    )


def ours(contender: Contender, measured: Suite, seconds: float, stop: Stop) -> None:
    """One round of a method of xdplab: both pairs share loads, so both times are spent at once."""
    outcome = run_suite(
        measured, {}, KernelEngine(), 2 * seconds, stop, progress=lambda _label, _share: None
    )
    found = {result.variant: result for result in outcome.results}
    same, little = (_at_one_clock(contender, found[variant]) for variant in (TWIN, LITTLE))
    # A round that was stopped early had less time than the others.
    if same and little and not stop.asked:
        contender.same.append(same)
        contender.little.append(little)


def _at_one_clock(contender: Contender, result: Result) -> Estimate | None:
    """The result in ns at the clock of the first round, where the clock is known."""
    if result.cycles is None or result.estimate is None:
        return result.estimate
    if contender.clock_ghz is None:
        clocks = [trial.clock_ghz for trial in result.trials if trial.clock_ghz is not None]
        contender.clock_ghz = statistics.median(clocks)
    cycles, ghz = result.cycles, contender.clock_ghz
    return replace(cycles, point=cycles.point / ghz, low=cycles.low / ghz, high=cycles.high / ghz)


class Bpftool:
    """`bpftool prog run` on programs that this process holds."""

    def __init__(self, path: str, spec: ObjectSpec, frame_file: Path) -> None:
        self._path = path
        self._spec = spec
        self._frame_file = frame_file

    def round(
        self, contender: Contender, form: str, operations: int, seconds: float, stop: Stop
    ) -> None:
        """A against A, then B against A, each for `seconds`, each on fresh loads."""
        with _one_cpu():
            same = self._pair((f"{form}_a", f"{form}_a"), operations, seconds, stop)
            little = self._pair((f"{form}_a", f"{form}_b"), operations, seconds, stop)
        if same and little and not stop.asked:
            # Its step is the clock's of these figures, as ours is for the operation method.
            quantum = contender.step_ns
            contender.same.append(estimates.estimate(same, quantum))
            contender.little.append(estimates.estimate(little, quantum))

    def _pair(
        self, programs: tuple[str, str], operations: int, seconds: float, stop: Stop
    ) -> list[float]:
        end = time.monotonic() + seconds
        differences = []
        with (
            LoadedObject(self._spec, (programs[0],)) as first,
            LoadedObject(self._spec, (programs[1],)) as second,
        ):
            one, other = (
                bpf.prog_info(loaded.prog_fd(program)).id
                for loaded, program in zip((first, second), programs, strict=True)
            )
            while time.monotonic() < end and not stop.asked:
                # A B B A, as ours are taken.
                before = self._run(one, operations)
                twice = self._run(other, operations) + self._run(other, operations)
                after = self._run(one, operations)
                differences.append((twice - before - after) / 2 / operations)
        return differences

    def _run(self, prog_id: int, operations: int) -> int:
        argv = [self._path, "--json", "prog", "run", "id", str(prog_id)]
        argv += ["data_in", str(self._frame_file), "repeat", str(BPFTOOL_REPEAT // operations)]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        try:
            return int(json.loads(done.stdout)["duration"])
        except (ValueError, KeyError, TypeError):
            said = (done.stderr or done.stdout).strip()
            raise UsageError(
                f"{' '.join(argv)} gave no duration but {said!r}: it may be too old for `prog run`"
            ) from None


@contextlib.contextmanager
def _one_cpu() -> Iterator[None]:
    """On the CPU that the kernel engine takes as well; children inherit it."""
    mask = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(mask)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, mask)


def table(contenders: Sequence[Contender], seconds: float) -> Table:
    """What each of them can tell apart."""
    columns = (
        Column("tool and method"),
        Column("step", "ns"),
        Column("A/A half width", "ns"),
        Column("A/A scatter", "ns"),
        Column("B - A scatter", "ns"),
        Column("resolvable", "ns"),
        Column("decided by"),
        Column("B - A, last round", "ns"),
        Column("B - A, all rounds", "ns"),
    )
    rows = []
    for one in contenders:
        points = [figure.point for figure in one.little]
        half_width_ns = statistics.median(figure.half_width for figure in one.same)
        resolvable_ns, decided_by = one.resolvable
        rows.append(
            Row(
                (
                    one.name,
                    f"{one.step_ns:g}",
                    f"{half_width_ns:.4f}",
                    f"{one.same_scatter_ns:.4f}",
                    f"{one.little_scatter_ns:.4f}",
                    f"{resolvable_ns:.4f}",
                    decided_by,
                    Figure(one.little[-1], digits=3, signed=True),
                    f"{min(points):+.3f} to {max(points):+.3f}",
                )
            )
        )
    return Table(
        f"what can be told apart in {seconds:g} s ({len(contenders[0].same)} rounds)",
        columns,
        rows,
        (
            "A/A: a program against a second load of itself. B: A and eight more stores. "
            "Half width: of the 95 % interval of the median, middle round. Scatter: standard "
            "deviation of the rounds' estimates.",
            "Resolvable: the largest of the step, twice either scatter, and how far from nothing "
            "the A/A interval reaches (middle round).",
        ),
    )


def ratio_lines(
    operations: Contender, packets: Contender, tool: Contender
) -> Iterator[tuple[str, float, bool]]:
    """Each target as a sentence, the ratio, and whether it is met."""
    for method, one in ((Method.OPERATION, operations), (Method.PACKET, packets)):
        theirs_ns, decided_by = tool.resolvable
        ours_ns, _ = one.resolvable
        ratio = theirs_ns / ours_ns
        met = ratio >= TARGETS[method]
        yield (
            f"{'PASS' if met else 'short'}: {one.name} tells differences {ratio:.1f} times as "
            f"small as {tool.name} does ({theirs_ns:.2f} ns, its {decided_by}, over "
            f"{ours_ns:.4f} ns); the target is {TARGETS[method]:g}",
            ratio,
            met,
        )


def measure(seconds: float, rounds: int, stop: Stop) -> list[Contender]:
    """Every contender with the rounds that it completed; those of bpftool only where it is."""
    raw = compile_object(HERE / "resolution.bpf.c", include=(HEADERS,))
    spec = read_object(raw, "resolution")
    operations = Contender("xdplab, operation method", 1 / OPERATIONS)
    # Its clock's step of 1 ns is shared by the 8000 packets of a call.
    packets = Contender("xdplab, packet method", 0.0)
    once = Contender("bpftool prog run", BPFTOOL_STEP_NS)
    loop = Contender("bpftool prog run, with our loop", BPFTOOL_STEP_NS / OPERATIONS)
    suites = {method: suite(spec, method) for method in Method}
    path = shutil.which("bpftool")
    with tempfile.TemporaryDirectory(prefix="xdplab-benchmark-") as directory:
        frame_file = Path(directory, "frame")
        frame_file.write_bytes(FRAME.data)
        tool = Bpftool(path, spec, frame_file) if path else None
        for number in range(rounds):
            if stop.asked:
                break
            print(f"round {number + 1} of {rounds}", file=sys.stderr, flush=True)
            ours(operations, suites[Method.OPERATION], seconds, stop)
            if tool:
                tool.round(once, "once", 1, seconds, stop)
            ours(packets, suites[Method.PACKET], seconds, stop)
            if tool:
                tool.round(loop, "loop", OPERATIONS, seconds, stop)
    return [one for one in (operations, packets, once, loop) if one.same]


def main() -> int:
    """Exit code: 0 measured (whatever the ratios), 3 not possible here, 130 stopped."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=10.0, help="time for each estimate")
    parser.add_argument("--rounds", type=int, default=5, help="estimates of each kind")
    parser.add_argument("--json", type=Path, help="write every round's estimates to this file")
    arguments = parser.parse_args()
    if arguments.seconds <= 0 or arguments.rounds < 1:
        parser.error("--seconds must be above 0 and --rounds 1 or more")
    stop = Stop()
    try:
        require_kernel_engine()
        if not shutil.which("bpftool"):
            print(
                "bpftool is not installed: xdplab is measured alone. For the comparison install "
                "it (Debian: apt-get install bpftool)",
                file=sys.stderr,
            )
        with stop.on_signals():
            contenders = measure(arguments.seconds, arguments.rounds, stop)
    except XdplabError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    if contenders:
        render(table(contenders, arguments.seconds), make_console())
    ratios: dict[str, Any] = {}
    if len(contenders) >= 3:
        operations, packets, once = contenders[:3]
        print()
        for line, ratio, met in ratio_lines(operations, packets, once):
            print(line)
            ratios[line.partition(": ")[2].partition(" tells")[0]] = {"ratio": ratio, "met": met}
    if arguments.json:
        document = {
            "environment": host.environment(),
            "seconds": arguments.seconds,
            "contenders": {one.name: one.to_json() for one in contenders},
            "ratios": ratios,
        }
        arguments.json.write_text(json.dumps(document, indent=1) + "\n")
    return 130 if stop.asked else 0


if __name__ == "__main__":
    sys.exit(main())
