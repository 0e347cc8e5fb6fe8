"""Anybody's objects on both engines: the same programs, maps and packets, and what differs.

    .venv/bin/python benchmarks/real_programs.py OBJECT... [--packets 10000] [--seed 1]
        [--mode checked] [--quick] [--program NAME] [--setup FILE] [--verbose]

Every XDP program of each object gets the packets of traffic.py, one after another, in the
user-space engine and in the kernel's test run, with maps filled alike; retvals, frames and metadata
are compared at once, maps and variables behind the last packet. One line a program tells: whether
the kernel loads it, packets that were equal and that were not, maps that were not, and the actions.

What the kernel does not load, or cannot test-run, runs in user space alone: only faults count.
Clocks and random numbers are the engines' own: a program that asks for them may differ with no
defect in either, and its line says VARIES. So may the contents of an LRU map that was full, and of
a map that a program keeps addresses in: those are for the reader to judge.

--setup names a JSON file for what random entries cannot give:
    {"constants": {"VARIABLE": 1},             of .rodata, before loading
     "maps": {"MAP": {"00000000": "c0000201",  hexadecimal, a key of "" is entry 0 of an array
                      "01000000": "@PROGRAM",  a program of the object, for a prog array
                      "02000000": "#MAP"}}}    a map of the object, for a map of maps
A map that it names gets these entries only.

Needs root; nothing is pinned, and interfaces are those of a namespace of our own. Exits 1 where a
program that the kernel loads does not run or faults, or where it differs and does not vary.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.map_contents import fill, state_differences
from benchmarks.traffic import Traffic

from xdplab.errors import XdplabError
from xdplab.kernel.libbpf import LoadedObject
from xdplab.kernel.namespace import NetworkNamespace
from xdplab.kernel.testrun import TestRun
from xdplab.packets.frame import Frame
from xdplab.program import ObjectSpec, read_object
from xdplab.user.link import ExternRef, LinkedProgram, link
from xdplab.user.machine import UserObject
from xdplab.user.options import Mode, Options
from xdplab.user.prototypes import HELPERS

ACTIONS = ("ABORTED", "DROP", "PASS", "TX", "REDIRECT")
FORWARDING = ("ipv4/ip_forward", "ipv6/conf/all/forwarding")
LOOPBACK_MTU_BYTES = 65_536
MAXIMUM_FRAGS_BYTES = 9000
NOT_RUN = ("xdp/devmap", "xdp/cpumap", "xdp_devmap", "xdp_cpumap", "xdp.frags/")
"""Sections of programs that the kernel's test run refuses."""

VARYING = frozenset({5, 7, 118, 125, 160, 208})
"""enum bpf_func_id of helpers that answer clocks and random numbers."""


@dataclass(slots=True)
class Comparison:
    """What came of one program: why it did not run, or counts and the first that differed."""

    program: str
    features: list[str] = field(default_factory=list)
    varies: bool = False
    kernel: str = "loaded"
    failed: str = ""
    equal: int = 0
    different: int = 0
    faults: int = 0
    maps_equal: int = 0
    maps_different: list[str] = field(default_factory=list)
    actions: Counter[str] = field(default_factory=Counter)
    first: str = ""
    seconds: float = 0.0

    @property
    def is_wrong(self) -> bool:
        """Whether what the kernel loads does not run, faults, or differs without a reason."""
        differs = bool(self.different or self.maps_different) and not self.varies
        return self.kernel == "loaded" and bool(self.failed or self.faults or differs)

    def line(self) -> str:
        """One line for a reader."""
        if self.failed:
            return f"{self.program}: FAILED: {self.failed} (kernel: {self.kernel})"
        actions = " ".join(f"{name} {count}" for name, count in self.actions.most_common())
        if self.kernel == "loaded":
            found = f"{self.equal} equal, {self.different} different"
            found += f", maps {self.maps_equal} equal"
            found += f", DIFFERENT: {', '.join(self.maps_different)}" * bool(self.maps_different)
        else:
            found = f"{self.equal} in user space alone (kernel: {self.kernel})"
        found += f", {self.faults} FAULTS" * bool(self.faults)
        return f"{self.program}: {found}; {actions}; {self.seconds:.1f} s [{self.uses()}]"

    def uses(self) -> str:
        """What the program has that others may not have."""
        return ", ".join(self.features)


def references(spec: ObjectSpec, program: str, setup: Mapping[str, Any]) -> list[str]:
    """Other programs that must be loaded along: those in slots of prog arrays, any of the object,
    for libbpf fills them all."""
    given = [text for entries in setup.get("maps", {}).values() for text in entries.values()]
    slots = [name for one in spec.maps.values() for name in (one.values or {}).values()]
    names = [*slots, *(text[1:] for text in given if text.startswith("@"))]
    return [name for name in dict.fromkeys(names) if name in spec.programs and name != program]


def features(spec: ObjectSpec, linked: LinkedProgram) -> list[str]:
    """Helpers, kfuncs, map types and the like of a program, for its line."""
    wide = sum(insn.is_wide for insn in linked.insns)
    calls = [insn for insn in linked.insns if insn.code == 0x85]
    numbers = dict.fromkeys(insn.imm for insn in calls if insn.src == 0)
    names = [
        "tail_call" if number == 12 else HELPERS[number].name if number in HELPERS else str(number)
        for number in numbers
        if number > 0
    ]
    kfuncs = [one.name for one in linked.references.values() if isinstance(one, ExternRef)]
    functions = [spec.programs.get(one.name) for one in linked.functions]
    functions += [spec.subprograms.get(one.name) for one in linked.functions]
    types = [spec.maps[name].type_name for name in linked.maps]
    others = [f"{len(linked.functions)} functions"] if len(linked.functions) > 1 else []
    others += ["CO-RE"] if any(one and one.has_core_relocations for one in functions) else []
    others += ["VARIES"] if varies(linked) else []
    return [
        f"{len(linked.insns) - wide} instructions",
        *others,
        *dict.fromkeys([*types, *names, *kfuncs]),
    ]


def varies(linked: LinkedProgram) -> bool:
    """Whether the program calls a helper that answers the engines' own clocks or random numbers."""
    return any(insn.code == 0x85 and insn.src == 0 and insn.imm in VARYING for insn in linked.insns)


def kernel_run(fd: int, frame: Frame) -> tuple[int, bytes]:
    """Retval, and metadata and frame in one piece."""
    ctx = None
    if frame.metadata:
        meta, end = len(frame.metadata), len(frame.metadata) + len(frame.data)
        ctx = b"".join(word.to_bytes(4, "little") for word in (meta, end, 0, 0, 0, 0))
    outcome = TestRun(fd, frame.metadata + frame.data, ctx).outcome()
    return outcome.retval, outcome.data


def run_packets(
    user: UserObject,
    kernel: LoadedObject | None,
    program: str,
    arguments: argparse.Namespace,
    found: Comparison,
) -> None:
    """All packets through one program."""
    spec = user.spec.programs[program]
    traffic = Traffic(arguments.seed)
    maximum = MAXIMUM_FRAGS_BYTES if spec.section.startswith("xdp.frags") else 1500
    linked = link(user.spec, program)
    fill(user, kernel, Traffic(arguments.seed + 1), arguments.setup)
    loaded = user.program(program)
    user.host.struct.mtu = LOOPBACK_MTU_BYTES
    for number in range(arguments.packets):
        frame = traffic.frame(maximum)
        outcome = loaded.run(frame)
        said = (outcome.retval, outcome.metadata + outcome.data)
        wanted = said
        if kernel is not None:
            try:
                wanted = kernel_run(kernel.prog_fd(program), frame)
            except OSError as error:
                raise OSError(error.errno, f"test run of packet {number}: {error}") from None
        action = ACTIONS[wanted[0]] if wanted[0] < len(ACTIONS) else "other"
        found.actions[action] += 1
        found.faults += outcome.fault is not None
        same = said == wanted
        found.equal += same
        found.different += not same
        if not found.first and (outcome.fault is not None or not same):
            found.first = (
                f"packet {number} ({len(frame.data)} bytes {frame.data[:64].hex()}, metadata "
                f"{frame.metadata.hex() or 'none'}): kernel {wanted[0]}, user space {said[0]}"
            )
            if outcome.fault is not None:
                found.first += f", fault: {outcome.fault.message}"
            elif said[1] != wanted[1]:
                pairs = enumerate(zip(said[1], wanted[1], strict=False))
                at = next((n for n, (a, b) in pairs if a != b), min(len(said[1]), len(wanted[1])))
                found.first += (
                    f"; {len(wanted[1])} and {len(said[1])} bytes, from byte {at} on "
                    f"{wanted[1][at : at + 16].hex()} and {said[1][at : at + 16].hex()}"
                )
    if kernel is not None:
        found.maps_equal, found.maps_different = state_differences(user, kernel, linked)


def compare(spec: ObjectSpec, program: str, arguments: argparse.Namespace) -> Comparison:
    """One program on both sides."""
    found = Comparison(f"{spec.name} {program}")
    started = time.perf_counter()
    constants = arguments.setup.get("constants", {})
    kernel: LoadedObject | None = None
    try:
        linked = link(spec, program)
        along = [program, *references(spec, program, arguments.setup)]
        found.features = features(spec, linked)
        found.varies = any(varies(link(spec, name)) for name in along)
    except XdplabError as error:
        found.failed, along = str(error), [program]
    try:
        kernel = LoadedObject(spec, along, constants)
    except XdplabError as error:
        found.kernel = " ".join(str(error).split()) if arguments.verbose else _short(str(error))
    if kernel is not None and spec.programs[program].section.startswith(NOT_RUN):
        found.kernel = "loads it, has no test run for its attach type"
        kernel.close()
        kernel = None
    options = Options(Mode(arguments.mode), quick=arguments.quick)
    try:
        if not found.failed:
            with UserObject(spec, options, constants=constants) as user:
                run_packets(user, kernel, program, arguments, found)
    except (XdplabError, OSError) as error:
        found.failed = str(error)
    finally:
        if kernel is not None:
            kernel.close()
    found.seconds = time.perf_counter() - started
    return found


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 200 else text[:197] + "..."


def main() -> int:
    """Compare what was named, print a line each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("objects", nargs="+", type=Path, metavar="OBJECT")
    parser.add_argument("--packets", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--mode", choices=[mode.value for mode in Mode], default="checked")
    parser.add_argument("--quick", action="store_true", help="compiled fast, to slow code")
    parser.add_argument("--program", help="only the program of this name")
    parser.add_argument("--setup", type=Path, help="JSON: constants and entries of maps")
    parser.add_argument("--verbose", action="store_true", help="refusals in full")
    arguments = parser.parse_args()
    arguments.setup = json.loads(arguments.setup.read_text()) if arguments.setup else {}
    # The user-space engine has one CPU, of number 0.
    os.sched_setaffinity(0, {0})
    wrong = 0
    with NetworkNamespace() as namespace:
        for name in FORWARDING:
            Path("/proc/sys/net", name).write_text("1")
        for path in arguments.objects:
            try:
                spec = read_object(path)
            except XdplabError as error:
                print(f"{path.name}: not read: {error}", flush=True)
                wrong += 1
                continue
            for program, one in spec.programs.items():
                if not one.section.startswith("xdp") or arguments.program not in (None, program):
                    continue
                found = compare(spec, program, arguments)
                wrong += found.is_wrong
                print(found.line(), flush=True)
                if found.first:
                    print(f"    first: {found.first}", flush=True)
    namespace.close()
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
