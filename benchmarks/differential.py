"""The user-space engine against the kernel: the same programs on the same packets.

    .venv/bin/python benchmarks/differential.py [--packets N] [--programs M] [--seed S] [--jobs J]

Two parts. Packets: the laboratory's own objects and the tests' object of maps, callbacks and tail
calls on random packets; retvals and bytes are compared, and after every batch all variables and
maps. Programs: random ones that the verifier takes, on eight packets each; retvals, bytes and
numbers of instructions. The kernel is compared with timed, checked and counted code, in every
tenth batch and for every program with the interpreter as well.

Needs root and a compiler. Exits 1 where anything differs, and prints what reproduces it.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.user.programs import RandomProgram, as_bytes, object_of
from tests.user.test_objects import is_written, kernel_entries, made_object, plan
from xdplab.errors import XdplabError
from xdplab.kernel import bpf
from xdplab.kernel.features import require_kernel_engine
from xdplab.kernel.libbpf import LoadedObject
from xdplab.kernel.testrun import TestRun
from xdplab.packets.frame import Frame
from xdplab.program import ObjectSpec
from xdplab.program.shipped import shipped_object
from xdplab.user.cache import ObjectCache
from xdplab.user.interpreter import Interpreter
from xdplab.user.machine import Outcome, UserObject
from xdplab.user.options import Mode, Options

OBJECTS = ("packet_access", "made", "adjust_head", "made", "packet_access")
BATCH = 2500
PROGRAMS_BATCH = 50
PACKETS_PER_PROGRAM = 8
INTERPRETED = 10
SHOWN = 10


class Job(NamedTuple):
    """A batch: `kind` is the name of an object, or "programs"."""

    kind: str
    seed: int
    size: int
    interpreted: bool
    cache: Path


@dataclass
class Found:
    """What a batch came to: counts by word, and lines that reproduce what differed."""

    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def differs(self, line: str) -> None:
        """Note one mismatch."""
        self.counts["mismatches"] += 1
        self.wrong.append(line)


def differing(wanted: tuple[int, bytes], outcomes: Iterable[tuple[str, Outcome]]) -> list[str]:
    """Names of those who did not give retval and bytes as the kernel did."""
    return [
        name
        for name, outcome in outcomes
        if outcome.fault is not None or (outcome.retval, outcome.data) != wanted
    ]


def compare_objects(job: Job) -> Found:
    """A batch of packets through the programs of one object, which keeps its state all along."""
    spec = made_object() if job.kind == "made" else shipped_object(job.kind)
    found = Found()
    cache = ObjectCache(job.cache)
    owners = {mode.value: UserObject(spec, Options(mode), cache=cache) for mode in Mode}
    if job.interpreted:
        owners["interpreter"] = UserObject(spec, cache=cache)
        interpreter = Interpreter(owners["interpreter"])
    with LoadedObject(spec) as kernel:
        for number, (program, frame, settings) in enumerate(plan(spec, job.seed, job.size)):
            for variable, value in settings.items():
                encoded = spec.globals[variable].encode(value)
                kernel.memory_of(variable).raw = encoded
                for owner in owners.values():
                    owner.memory_of(variable).raw = encoded
            said = TestRun(kernel.prog_fd(program), frame.data).outcome()
            outcomes = []
            for name, owner in owners.items():
                loaded = owner.program(program)
                outcome = (
                    interpreter.run(loaded.linked, frame)
                    if name == "interpreter"
                    else loaded.run(frame)
                )
                outcomes.append((name, outcome))
            found.counts["packets"] += 1
            found.counts["interpreted"] += job.interpreted
            for name in differing((said.retval, said.data), outcomes):
                found.differs(f"{job.kind} seed {job.seed} packet {number} ({program}): {name}")
        for text in state_differences(spec, kernel, owners):
            found.differs(f"{job.kind} seed {job.seed}, behind the last packet: {text}")
    for owner in owners.values():
        owner.close()
    return found


def state_differences(
    spec: ObjectSpec, kernel: LoadedObject, owners: dict[str, UserObject]
) -> list[str]:
    """Variables and maps that are not as in the kernel."""
    wrong = []
    for name in spec.globals:
        if is_written(spec, name):
            wanted = kernel.memory_of(name).raw
            wrong += [
                f"{who}, variable {name}"
                for who, owner in owners.items()
                if owner.memory_of(name).raw != wanted
            ]
    for name, one in spec.maps.items():
        if one.type in (1, 2):
            entries = dict(kernel_entries(kernel.maps[name], one.key_size, one.value_size))
            wrong += [
                f"{who}, map {name}"
                for who, owner in owners.items()
                if dict(owner.maps[name].items()) != entries
            ]
    return wrong


def compare_programs(job: Job) -> Found:
    """A batch of random programs."""
    found = Found()
    for seed in range(job.seed, job.seed + job.size):
        pick = random.Random(seed)
        program = RandomProgram(seed, pick.randint(3, 60)).program
        try:
            fd, _ = bpf.prog_load(as_bytes(program))
        except OSError:
            found.counts["refused programs"] += 1
            continue
        found.counts["programs"] += 1
        # Guarded code that is compiled fast and code that is fast, most of it the former.
        options = {mode: Options(mode, quick=seed % 4 > 0) for mode in Mode}
        owners = {mode: UserObject(object_of(), options[mode]) for mode in Mode}
        loaded = {mode: owner.add(program) for mode, owner in owners.items()}
        interpreter = Interpreter(owners[Mode.TIMED])
        try:
            for number in range(PACKETS_PER_PROGRAM):
                frame = Frame(pick.randbytes(pick.choice((14, 64, 64, 65, 100, 256, 1500))))
                said = TestRun(fd, frame.data).outcome()
                outcomes = [(mode.value, one.run(frame)) for mode, one in loaded.items()]
                outcomes.append(("interpreter", interpreter.run(program, frame)))
                found.counts["program packets"] += 1
                wrong = differing((said.retval, said.data), outcomes)
                if len({outcome.instructions for _, outcome in outcomes[1:]}) != 1:
                    wrong.append("numbers of instructions")
                for name in wrong:
                    found.differs(f"program seed {seed} packet {number}: {name}")
        finally:
            os.close(fd)
        for owner in owners.values():
            owner.close()
    return found


def work(job: Job) -> tuple[str, float, Found]:
    """One batch: which part, its seconds, and what came of it."""
    started = time.perf_counter()
    found = compare_programs(job) if job.kind == "programs" else compare_objects(job)
    part = "programs" if job.kind == "programs" else "packets"
    return part, time.perf_counter() - started, found


def jobs_of(packets: int, programs: int, seed: int, cache: Path) -> list[Job]:
    """Batches, the same ones for the same numbers."""
    jobs = []
    for number, start in enumerate(range(0, packets, BATCH)):
        kind = OBJECTS[number % len(OBJECTS)]
        size = min(BATCH, packets - start)
        interpreted = number % (2 * INTERPRETED) < 2
        jobs.append(Job(kind, seed * 1_000_003 + number, size, interpreted, cache))
    jobs += [
        Job(
            "programs", seed * 1_000_003 + start, min(PROGRAMS_BATCH, programs - start), True, cache
        )
        for start in range(0, programs, PROGRAMS_BATCH)
    ]
    return jobs


def main() -> int:
    """Compare, print counts and rates."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--packets", type=int, default=500_000)
    parser.add_argument("--programs", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    arguments = parser.parse_args()
    try:
        require_kernel_engine()
    except XdplabError as error:
        print(f"differential: {error}", file=sys.stderr)
        return error.exit_code
    made_object()
    total = Found()
    seconds: dict[str, float] = defaultdict(float)
    started = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="xdplab-differential-") as folder:
        jobs = jobs_of(arguments.packets, arguments.programs, arguments.seed, Path(folder))
        with multiprocessing.get_context("spawn").Pool(arguments.jobs) as pool:
            for part, spent_s, found in pool.imap_unordered(work, jobs):
                total.counts.update(found.counts)
                total.wrong.extend(found.wrong)
                seconds[part] += spent_s
    elapsed_s = time.perf_counter() - started
    counts = total.counts
    for name in ("packets", "interpreted", "programs", "program packets", "refused programs"):
        print(f"{name:18} {counts[name]:>9,}")
    print(f"{'mismatches':18} {counts['mismatches']:>9,}")
    for part, done in (("packets", counts["packets"]), ("programs", counts["programs"])):
        if seconds[part]:
            print(f"{part} a second and process: {done / seconds[part]:,.0f}")
    print(f"{elapsed_s:.0f} s in {arguments.jobs} processes, seed {arguments.seed}")
    for line in total.wrong[:SHOWN]:
        print(line)
    return 1 if counts["mismatches"] else 0


if __name__ == "__main__":
    sys.exit(main())
