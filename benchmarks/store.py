"""What the store bears: runs killed at random moments, writers at once, and a large one's speed.

    .venv/bin/python benchmarks/store.py [kill] [writers] [speed] [--kills 50] [--runs 10000]

kill: `xdplab run` on the user-space engine, killed -9 at a random moment of its measuring, again
and again into one store. While it runs it is watched from another process: whatever was seen in the
store before the kill must be in it afterwards, and the file must be whole.
writers: four `xdplab run` at once into one store, each with --json: every stored run must be its
document, every sample of it.
speed: a store of 10,000 runs and 5 million samples, made of one measured run with its figures
shifted; then commands on it, as a user calls them, process start included. compare and report
are timed where this xdplab has them, and --help beside them.

Needs no privilege. Exits 1 where anything is lost, or where a command takes a second of the CPU or
more; what it takes by the clock depends on who else is busy.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from xdplab.cli.main import cli
from xdplab.documents import documents_from_text
from xdplab.errors import StoreError
from xdplab.records import Document, Result, Trial
from xdplab.store.store import Store

XDPLAB = str(Path(sys.executable).parent / "xdplab")
PARTS = ("kill", "writers", "speed")
WRITERS = 4
LIMIT_S = 1.0
START_LIMIT_S = 60.0
"""How long a run may take until its first trial."""
REPEATS = 5
SAMPLES_PER_RUN = 512
"""Of a run of the large store: two results of eight trials of eight quads."""


def main() -> int:
    """Do the parts that were asked for; 1 where one of them failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}")
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    unknown = set(arguments.parts) - set(PARTS)
    if unknown:
        parser.error(f"there is no part {unknown.pop()!r}")
    chosen = arguments.parts or PARTS
    failed = False
    with tempfile.TemporaryDirectory(prefix="xdplab-store-") as directory:
        path = Path(directory)
        if "kill" in chosen:
            failed |= not killed(path / "killed.sqlite", arguments.kills, arguments.seed)
        if "writers" in chosen:
            failed |= not written_at_once(path)
        if "speed" in chosen:
            failed |= not fast(path / "large.sqlite", arguments.runs, arguments.seed)
    return int(failed)


def run_command(store: Path, *more: str) -> list[str]:
    """A run of many short groups in user space."""
    words = ("run", "adjust-head", "packet-access", "--engine", "user")
    return [XDPLAB, *words, "--store", str(store), *more]


# --- kill


def killed(path: Path, kills: int, seed: int) -> bool:
    """Kill so many runs; print what was seen before and what was there after."""
    pick = random.Random(seed)
    lost = stored = trials = unfinished = 0
    for _ in range(kills):
        before = set(_trials(path))
        process = subprocess.Popen(
            run_command(path, "--time", "2"),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        end = time.monotonic() + START_LIMIT_S
        seen: dict[str, list[int]] = {}
        while time.monotonic() < end:
            began = bool(seen)
            seen = {run: found for run, found in _trials(path).items() if run not in before}
            if seen and not began:
                end = time.monotonic() + pick.uniform(0.0, 4.0)
            time.sleep(0.01)
        process.kill()
        process.wait()
        after = _trials(path)
        for run, counts in seen.items():
            # A group's rows come with it, so that places stay: each may only have gained.
            now = after.get(run, [])
            lost += sum(max(0, then - found) for then, found in _pairs(counts, now))
        for run in after.keys() - before:
            stored += 1
            trials += sum(after[run])
            with Store(path) as store:
                unfinished += not store.document(run).run.complete
    with sqlite3.connect(path) as connection:
        (whole,) = connection.execute("PRAGMA integrity_check").fetchone()
        strays = connection.execute("PRAGMA foreign_key_check").fetchall()
    connection.close()
    print(
        f"kill: {kills} runs killed -9; {stored} are in the store "
        f"({unfinished} of them unfinished) with {trials:,} trials; of trials seen before a kill "
        f"{lost} were lost; integrity_check {whole}, {len(strays)} rows without their owner"
    )
    return lost == 0 and whole == "ok" and not strays and stored == kills


def _trials(path: Path) -> dict[str, list[int]]:
    """Stored run -> trials of each of its results, read beside whoever writes."""
    try:
        with Store(path) as store:
            return {
                summary.run.id: [len(of.trials) for of in store.document(summary.run.id).results]
                for summary in store.runs(limit=2)
            }
    except StoreError:
        # Before the first run has made it.
        return {}


def _pairs(then: Sequence[int], now: Sequence[int]) -> list[tuple[int, int]]:
    return list(zip(then, [*now, *[0] * len(then)], strict=False))


# --- writers


def written_at_once(directory: Path) -> bool:
    """Runs beside one another into one store, each held against its own document."""
    path = directory / "writers.sqlite"
    targets = [directory / f"{number}.json" for number in range(WRITERS)]
    processes = [
        subprocess.Popen(
            run_command(path, "--time", "4", "--json", str(target)),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for target in targets
    ]
    statuses = [process.wait() for process in processes]
    same = samples = 0
    with Store(path) as store:
        count = store.count()
        for target in targets:
            (document,) = documents_from_text(target.read_bytes(), str(target))
            same += store.document(document.run.id) == document
            samples += _samples(document)
    print(
        f"writers: {WRITERS} at once, {count} runs in the store, {same} of them equal to their own "
        f"documents to the last of {samples:,} samples"
    )
    return statuses == [0] * WRITERS and count == same == WRITERS


def _samples(document: Document) -> int:
    return sum(
        len(trial.baseline_ns) + len(trial.variant_ns)
        for result in document.results
        for trial in result.trials
    )


# --- speed


def fast(path: Path, runs: int, seed: int) -> bool:
    """Make the large store, time commands on it."""
    first = _measured(path.with_suffix(".json"))
    pick = random.Random(seed)
    start = time.monotonic()
    samples = 0
    with Store(path, write=True) as store:
        for number in range(runs):
            document = _shifted(first, number, pick)
            samples += _samples(document)
            store.add(document)
    size_mb = path.stat().st_size / 1e6
    print(
        f"speed: {runs:,} runs, {samples:,} samples, {size_mb:.0f} MB, put in within "
        f"{time.monotonic() - start:.0f} s"
    )
    calls = [
        ("run --help", ("run", "--help")),
        ("list", ("list",)),
        ("list --tag", ("list", "--tag", "every-100th")),
        ("list --limit 0 (all)", ("list", "--limit", "0")),
        ("show last", ("show", "last")),
        ("show by the beginning of an id", ("show", _run_id(runs // 2)[:18])),
        ("export last", ("export", "last")),
        ("tag", ("tag", "last", "again")),
        ("compare last~1 last", ("compare", "last~1", "last", "--across")),
        ("report last", ("report", "last", "-o", str(path.with_suffix(".html")))),
        (
            "report last~1 last",
            ("report", "last~1", "last", "--across", "-o", str(path.with_suffix(".html"))),
        ),
    ]
    known = cli.list_commands(None)  # type: ignore[arg-type]
    slow = False
    for name, words in calls:
        if words[0] not in known:
            continue
        took_s, cpu_s, problem = _timed(path, words)
        # All of a store is not what a user waits for.
        slow |= bool(problem) or (cpu_s >= LIMIT_S and "all" not in name)
        print(f"  {name:32} {took_s:6.2f} s, of the CPU {cpu_s:5.2f} s{problem}", flush=True)
    return not slow


def _timed(path: Path, words: Sequence[str]) -> tuple[float, float, str]:
    """Medians of some calls, elapsed and on the CPU, in seconds, and what went wrong."""
    took_s, cpu_s = [], []
    # As an installed xdplab is: compiled once, not at every start.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    for _ in range(REPEATS):
        start, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
        called = subprocess.run(
            [XDPLAB, *words, *([] if "--help" in words else ["--store", str(path)])],
            capture_output=True,
            text=True,
            check=False,
            env=environment,
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        took_s.append(time.monotonic() - start)
        cpu_s.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        if called.returncode:
            return took_s[-1], cpu_s[-1], f"  failed: {called.stderr.strip()}"
    return statistics.median(took_s), statistics.median(cpu_s), ""


def _measured(target: Path) -> Document:
    """A run of this machine, of which the large store's are made."""
    words = ["run", "adjust-head", "--engine", "user", "--sizes", "20", "--time", "2"]
    subprocess.run(
        [XDPLAB, *words, "--no-store", "--json", str(target)],
        check=True,
        capture_output=True,
    )
    (document,) = documents_from_text(target.read_bytes(), str(target))
    figures = [result for result in document.results if result.estimate and result.baseline]
    return replace(document, results=tuple(_cut(result) for result in figures[:2]))


def _cut(result: Result) -> Result:
    """As many of its samples as half of SAMPLES_PER_RUN are, from the trials that it has."""
    trials: list[Trial] = []
    left = SAMPLES_PER_RUN // 2
    while left > 0:
        trial = result.trials[len(trials) % len(result.trials)]
        quads = min(len(trial.baseline_ns) // 2, left // 4)
        trials.append(
            replace(
                trial,
                baseline_ns=trial.baseline_ns[: 2 * quads],
                variant_ns=trial.variant_ns[: 2 * quads],
            )
        )
        left -= 4 * quads
    return replace(result, trials=tuple(trials))


def _run_id(number: int) -> str:
    start = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=number)
    return f"{start:%Y%m%dT%H%M%S}-{number:06x}"


def _shifted(document: Document, number: int, pick: random.Random) -> Document:
    """The run as if measured another time: other samples, so that it takes room."""
    start = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=number)
    return replace(
        document,
        run=replace(
            document.run,
            id=_run_id(number),
            started_at=start.isoformat(timespec="seconds"),
            tags=("every-100th",) if number % 100 == 0 else (),
        ),
        results=tuple(
            replace(result, trials=tuple(_moved(trial, pick) for trial in result.trials))
            for result in document.results
        ),
    )


def _moved(trial: Trial, pick: random.Random) -> Trial:
    by = pick.randrange(1000)
    return replace(
        trial,
        baseline_ns=tuple(ns + by + pick.randrange(50) for ns in trial.baseline_ns),
        variant_ns=tuple(ns + by + pick.randrange(50) for ns in trial.variant_ns),
    )


if __name__ == "__main__":
    sys.exit(main())
