"""How many packets xdplab's generators send, side by side with xdp-trafficgen and trafgen.

    .venv/bin/python benchmarks/live.py [--rounds 10] [--seconds 1] [--cpu N] [--realtime]
                                        [--xdp-trafficgen PATH] [--trafgen PATH] [--json FILE]

Each tool sends 64-byte UDP packets of one flow out of a veth as fast as it can, pinned to one CPU;
a program at the other end counts and drops them, on the same CPU. All of them take their turn in
each round, in the opposite order every second time. Of the rounds' pairs come two ratios, each a
median with its interval: packets a second, and packets per second of CPU that the tool was given,
which does not depend on what else ran. --realtime gives every tool the CPU before all else, for
machines that others use as well: they wait meanwhile.

First it is counted that nothing gets lost: a million packets of each generator through TX and
through REDIRECT, made = seen at the device = seen at the end.

A peer that is not there, or does not run on this kernel, is named, and ours are measured alone.
AF_XDP has benchmarks/xsk_drop.py. Needs root; namespaces and programs go with this process.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xdplab.errors import XdplabError
from xdplab.kernel import host
from xdplab.kernel.features import require_kernel_engine
from xdplab.kernel.libbpf import LoadedObject
from xdplab.kernel.namespace import entered
from xdplab.net.generators.base import Outlet
from xdplab.net.generators.programs import FramesGenerator, SkbGenerator
from xdplab.net.topology import Topology
from xdplab.packets.traffic import Flows, Span
from xdplab.program.shipped import shipped_object
from xdplab.records import Estimate
from xdplab.stats.estimates import estimate

MILLION = 1_000_000
WARMUP_S = 0.3
PATIENCE_S = 10.0
SOURCE, DESTINATION = 0xC0000201, 0xC6120001  # 192.0.2.1, 198.18.0.1

PAIRS = (("frames", "xdp-trafficgen", 1.0), ("skb", "trafgen", 1.0), ("ring", "trafgen", 1.0))
"""Our generator, the peer's program, and what the ratio should reach."""

TRAFGEN = """{{ eth(da={to}, sa={at}), ipv4(saddr=192.0.2.1, daddr=198.18.0.1),
udp(sp=1234, dp=9), fill(0x00, 22) }}
"""


@dataclass(frozen=True, slots=True)
class Taken:
    """One tool's share of a round: packets a second, and packets per second of its CPU time."""

    rate_pps: float
    per_cpu_s: float


class Bench:
    """A topology whose v0 drops, and the tools that send to it."""

    def __init__(
        self, topology: Topology, programs: LoadedObject, cpu: int, seconds: float, realtime: bool
    ) -> None:
        self._topology = topology
        self._programs = programs
        self._prefix = ["taskset", "-c", str(cpu), *(["chrt", "-f", "1"] if realtime else [])]
        self._seconds = seconds
        topology.attach("v0", programs.prog_fd("drop"))

    @property
    def arrived(self) -> int:
        """Packets so far at v0."""
        return int(self._programs.read("device_packets"))

    def take(self, command: Sequence[str]) -> Taken:
        """Run a command that sends out of v1 until it is ended, and count what arrives."""
        with entered(self._topology.namespace_fd("v1")):
            process = subprocess.Popen(
                [*self._prefix, *command],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                start_new_session=True,
                text=True,
            )
        try:
            self._await_packets(process, command)
            time.sleep(WARMUP_S)
            before, start, cpu_before_s = self.arrived, time.monotonic(), cpu_s(process.pid)
            time.sleep(self._seconds)
            packets, lasted_s = self.arrived - before, time.monotonic() - start
            used_s = cpu_s(process.pid) - cpu_before_s
        finally:
            end(process)
        return Taken(packets / lasted_s, packets / used_s if used_s > 0 else math.nan)

    def _await_packets(self, process: subprocess.Popen[str], command: Sequence[str]) -> None:
        before = self.arrived
        until = time.monotonic() + PATIENCE_S
        while self.arrived == before:
            if process.poll() is not None or time.monotonic() > until:
                end(process)
                assert process.stderr is not None
                said = " / ".join(process.stderr.read().split("\n")[-4:]).strip()
                raise XdplabError(f"{Path(command[0]).name} sent nothing: {said or 'no word'}")
            time.sleep(0.01)


def cpu_s(leader: int) -> float:
    """CPU seconds so far of all processes of a session, which tools fork."""
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            if int(fields[3]) == leader:
                ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def end(process: subprocess.Popen[str]) -> None:
    """End the tool and all that it forked; what does not hear Ctrl-C is killed."""
    for number, patience_s in ((signal.SIGINT, 2.0), (signal.SIGKILL, 10.0)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(patience_s)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


@contextlib.contextmanager
def commands(
    topology: Topology, cpu: int, peers: Mapping[str, str | None]
) -> Iterator[dict[str, list[str]]]:
    """Every tool's command by its name; a peer without a program has none."""
    at, to = topology.ports["v1"].mac, topology.ports["v0"].mac
    ours = [sys.executable, "-m", "xdplab", "trafficgen", "v1", "-m", to, "-i", "60"]
    found = {name: [*ours, "-g", name, "--cpu", str(cpu)] for name, _, _ in PAIRS}
    with tempfile.NamedTemporaryFile("w", suffix=".cfg") as config:
        config.write(TRAFGEN.format(to=to, at=at))
        config.flush()
        theirs = {
            "xdp-trafficgen": ["udp", "v1", "-m", to, "-t", "1", "-I", "60"],
            "trafgen": ["-o", "v1", "-i", config.name, "-P", "1", "--no-sock-mem"],
        }
        for name, path in peers.items():
            if path is not None:
                found[name] = [path, *theirs[name]]
        yield found


def conservation(topology: Topology) -> Iterator[str]:
    """A line for each generator and way: a million packets, counted at three places."""
    target = topology.ports["v2"].ifindex
    for way, program, end_at in (
        ("TX -> DROP", "tx", "v1"),
        ("REDIRECT -> DROP", "redirect", "v3"),
    ):
        names = (program, "sink_drop")
        constants = {"out_ifindex": target}
        with LoadedObject(shipped_object("paths"), names, constants) as programs:
            topology.attach("v0", programs.prog_fd(program))
            topology.attach(end_at, programs.prog_fd("sink_drop"))
            port = topology.ports["v1"]
            outlet = Outlet("v1", port.ifindex, topology.namespace_fd("v1"))
            flow = Flows(
                Span(SOURCE), Span(DESTINATION), destination_mac=topology.ports[end_at].mac
            )
            for factory in (FramesGenerator, SkbGenerator):
                with factory(outlet, flow) as generator:
                    before = [int(programs.read(f"{at}_packets")) for at in ("device", "sink")]
                    with outlet.inside():
                        generator.burst(MILLION)
                    until = time.monotonic() + PATIENCE_S
                    while (
                        int(programs.read("sink_packets")) - before[1] < MILLION
                        and time.monotonic() < until
                    ):
                        time.sleep(0.01)
                    after = [int(programs.read(f"{at}_packets")) for at in ("device", "sink")]
                    made = generator.sent().generated
                    device, sink = (b - a for a, b in zip(before, after, strict=True))
                    exact = made == device == sink == MILLION
                    yield (
                        f"{'PASS' if exact else 'FAIL'}: {way}, {generator.name}: made {made:,}, "
                        f"at the device {device:,}, at the end {sink:,}"
                    )
            topology.detach(end_at)


def measure(
    bench: Bench, tools: Mapping[str, Sequence[str]], rounds: int
) -> list[dict[str, Taken]]:
    """What each tool sent in each round."""
    taken: list[dict[str, Taken]] = []
    for number in range(rounds):
        names = list(tools) if number % 2 == 0 else list(tools)[::-1]
        found = {name: bench.take(tools[name]) for name in names}
        taken.append(found)
        line = ", ".join(f"{name} {found[name].rate_pps / 1e6:.2f}" for name in tools)
        print(f"round {number + 1} of {rounds}, Mpps: {line}", file=sys.stderr)
    return taken


def usable(bench: Bench, tools: dict[str, list[str]]) -> dict[str, list[str]]:
    """The tools that send anything here; of others it is said on standard error why not."""
    found = {}
    for name, command in tools.items():
        try:
            bench.take(command)
        except XdplabError as error:
            print(f"{name} is left out: {error}", file=sys.stderr)
        else:
            found[name] = command
    return found


def interval(figure: Estimate) -> str:
    """A figure as text; a few rounds give no interval."""
    if math.isinf(figure.low):
        return f"{figure.point:.2f}"
    return f"{figure.point:.2f} [{figure.low:.2f}, {figure.high:.2f}]"


def judged(ratio: Estimate, target: float) -> str:
    """A ratio, and whether it meets its target; open where its interval holds both answers."""
    if ratio.low < target <= ratio.high:
        return f"{interval(ratio)} (open)"
    return f"{interval(ratio)} ({'PASS' if ratio.point >= target else 'short'})"


def report(taken: Sequence[Mapping[str, Taken]]) -> Iterator[str]:
    """Rates of all tools, and the ratios of those that have a peer."""
    for name in taken[0]:
        rates = estimate([found[name].rate_pps / 1e6 for found in taken], 0.0)
        yield f"{name}: {interval(rates)} Mpps"
    for ours, peer, target in PAIRS:
        if ours in taken[0] and peer in taken[0]:
            ratio = estimate([one[ours].rate_pps / one[peer].rate_pps for one in taken], 0.0)
            cpu = estimate([one[ours].per_cpu_s / one[peer].per_cpu_s for one in taken], 0.0)
            yield (
                f"{ours} over {peer}, the target is {target}: "
                f"packets a second {judged(ratio, target)}, "
                f"packets per second of CPU {judged(cpu, target)}"
            )


def main() -> int:
    """Exit code: 0 measured (whatever the ratios), 1 packets were lost, 3 not possible here."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=10, help="turns of every tool")
    parser.add_argument("--seconds", type=float, default=1.0, help="for each of them in a round")
    parser.add_argument("--cpu", type=int, default=max(os.sched_getaffinity(0)))
    parser.add_argument("--realtime", action="store_true", help="nobody else on that CPU")
    parser.add_argument("--xdp-trafficgen", help="the program to measure beside, else PATH's")
    parser.add_argument("--trafgen", help="the program to measure beside, else PATH's")
    parser.add_argument("--json", type=Path, help="write every round to this file")
    arguments = parser.parse_args()
    if arguments.rounds < 1 or arguments.seconds <= 0:
        parser.error("--rounds must be 1 or more, --seconds more than 0")
    peers = {
        "xdp-trafficgen": arguments.xdp_trafficgen or shutil.which("xdp-trafficgen"),
        "trafgen": arguments.trafgen or shutil.which("trafgen"),
    }
    for name, package in (("xdp-trafficgen", "xdp-tools"), ("trafgen", "netsniff-ng")):
        if peers[name] is None:
            print(f"{name} is not here (Debian: apt-get install {package})", file=sys.stderr)
    try:
        require_kernel_engine()
        with Topology() as topology:
            lines = list(conservation(topology))
            print("\n".join(lines), flush=True)
            with LoadedObject(shipped_object("paths"), ("drop",)) as programs:
                bench = Bench(
                    topology, programs, arguments.cpu, arguments.seconds, arguments.realtime
                )
                with commands(topology, arguments.cpu, peers) as tools:
                    taken = measure(bench, usable(bench, tools), arguments.rounds)
    except XdplabError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    print("\n".join(report(taken)))
    if arguments.json:
        document: dict[str, Any] = {
            "environment": host.environment(),
            "conservation": lines,
            "rounds": [
                {
                    name: {"rate_pps": t.rate_pps, "per_cpu_s": t.per_cpu_s}
                    for name, t in one.items()
                }
                for one in taken
            ],
        }
        arguments.json.write_text(json.dumps(document, indent=1) + "\n")
    return 0 if all(line.startswith("PASS") for line in lines) else 1


if __name__ == "__main__":
    sys.exit(main())
