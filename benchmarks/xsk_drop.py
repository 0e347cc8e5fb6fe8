"""How many packets an AF_XDP socket of xdplab drops, side by side with `xdp-bench xsk-drop`.

    .venv/bin/python benchmarks/xsk_drop.py [--xdp-bench PATH] [--rounds 10] [--seconds 2]
                                            [--ring 8192] [--cpu N] [--json FILE]

Live frames of 64 bytes, as many as the kernel makes, go over a veth pair of our own to a socket in
copy mode; generator, NAPI and socket are on one CPU. Each round gives either tool that time, the
first one first in turn. Two ratios come of it, each the median over rounds with its interval:

  - packets received a second;
  - packets received per second of CPU, of tool, generator and the CPU's ksoftirqd together: what
    NAPI does in a tool's turn is that tool's cost, and a tool in poll(2) leaves a quarter of it to
    ksoftirqd. Where other work wants the CPU as well, a tool that spends more of it is given more,
    and the first ratio flatters it.

xdp-bench is given its option for poll(2): without it, it takes the CPU from the generator and
receives a twentieth. Versions before 1.5 have no xsk-drop; build a newer one beside and name it.
Needs root. Nothing is left behind: namespaces and programs go with this process.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xdplab.errors import XdplabError
from xdplab.kernel import host
from xdplab.kernel.features import require_kernel_engine
from xdplab.kernel.namespace import entered
from xdplab.net import Tally, Umem, Xsk, drop_loop
from xdplab.net.topology import Topology
from xdplab.records import Estimate
from xdplab.stats.estimates import estimate

TARGET = 0.95

WARMUP_S = 0.3

# A process of its own: nobody waits for the other's interpreter. It ends with its standard input.
GENERATOR = """
import os, sys, time
from xdplab.net.generators.base import Outlet, Sender
from xdplab.net.generators.programs import FramesGenerator
from xdplab.packets.traffic import Flows, Span
namespace_fd, ifindex, cpu, mac = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
outlet = Outlet("v1", ifindex, namespace_fd)
flow = Flows(Span(0xC0000201), Span(0xC6120001), destination_mac=mac)
os.sched_setaffinity(0, {cpu})
with FramesGenerator(outlet, flow) as source, Sender(source, outlet):
    print(time.process_time(), flush=True)
    sys.stdin.read()
"""


def ksoftirqd(cpu: int) -> Path:
    """Where the kernel says how long a CPU's ksoftirqd has run."""
    for name in Path("/proc").glob("[0-9]*/comm"):
        with suppress(OSError):
            if name.read_text().strip() == f"ksoftirqd/{cpu}":
                return name.with_name("schedstat")
    raise XdplabError(
        f"finding the kernel's thread ksoftirqd/{cpu} failed: /proc does not list it. Its share of "
        "the work cannot be counted; run in the host's process namespace"
    )


@dataclass(frozen=True, slots=True)
class Taken:
    """One tool's share of a round: packets a second, and packets per second of CPU."""

    rate_pps: float
    per_cpu_s: float


class Bench:
    """The topology, the generator and the two tools on it."""

    def __init__(self, topology: Topology, cpu: int, ring: int, seconds: int) -> None:
        self._topology = topology
        self._cpu = cpu
        self._softirqs = ksoftirqd(cpu)
        self._ring = ring
        self._seconds = seconds

    def _softirqs_s(self) -> float:
        return int(self._softirqs.read_text().split()[0]) / 1e9

    @contextmanager
    def traffic(self) -> Iterator[list[float]]:
        """Packets are sent within the block; the list then has the CPU seconds that took.

        Those are the generator's and ksoftirqd's, not those of who receives.
        """
        port = self._topology.ports["v1"]
        namespace_fd = self._topology.namespace_fd("v1")
        arguments = [
            str(namespace_fd),
            str(port.ifindex),
            str(self._cpu),
            self._topology.ports["v0"].mac,
        ]
        process = subprocess.Popen(
            [sys.executable, "-c", GENERATOR, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            pass_fds=[namespace_fd],
        )
        assert process.stdin is not None
        assert process.stdout is not None
        cpu_s: list[float] = []
        try:
            started_s = float(process.stdout.readline() or "nan")
            softirqs_s = self._softirqs_s()
            yield cpu_s
        finally:
            # Not by terminate: what it has used is asked for, which subprocess would throw away.
            process.stdin.close()
            _, _, used = os.wait4(process.pid, 0)
            process.returncode = 0
            process.stdout.close()
        softirqs_s = self._softirqs_s() - softirqs_s
        cpu_s.append(used.ru_utime + used.ru_stime - started_s + softirqs_s)

    def ours(self) -> Taken:
        """A socket and the drop loop, in this process."""
        mask = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {self._cpu})
        try:
            with Umem(self._ring) as umem, self._topology.inside("v0"):
                xsk = Xsk.attach("v0", rx_ring=self._ring, umem=umem, mode="copy")
                with xsk, self.traffic() as generator_s:
                    before_s = time.process_time()
                    tally = Tally()
                    drop_loop(xsk, tally, seconds=WARMUP_S)
                    warm, start = tally.packets, time.monotonic()
                    drop_loop(xsk, tally, seconds=self._seconds)
                    rate_pps = (tally.packets - warm) / (time.monotonic() - start)
                    cpu_s = time.process_time() - before_s
        finally:
            os.sched_setaffinity(0, mask)
        return Taken(rate_pps, tally.packets / (cpu_s + generator_s[0]))

    def theirs(self, path: str) -> Taken:
        """`xdp-bench xsk-drop`: the mean of its intervals but for the first, and its total."""
        command = [path, "xsk-drop", "v0", "-p", "-C", "copy", "-i", "1"]
        command += ["-d", str(self._seconds + 1)]
        with self.traffic() as generator_s:
            with entered(self._topology.namespace_fd("v0")):
                process = subprocess.Popen(
                    ["taskset", "-c", str(self._cpu), *command],
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                )
            assert process.stdout is not None
            said = process.stdout.read()
            process.stdout.close()
            _, _, used = os.wait4(process.pid, 0)
            process.returncode = 0
        rates = [float(text) for text in re.findall(r"([\d.]+) rx/s", said)]
        total = re.search(r"RX +(\d+) pkts", said)
        if len(rates) < 2 or total is None:
            raise XdplabError(f"{' '.join(command)} did not say what it received: {said.strip()}")
        cpu_s = used.ru_utime + used.ru_stime + generator_s[0]
        return Taken(statistics.mean(rates[1:]), int(total.group(1)) / cpu_s)


def peer(path: str | None) -> str | None:
    """xdp-bench where there is one that knows xsk-drop; else None, and why on standard error."""
    found = path or shutil.which("xdp-bench")
    if found is None:
        why = "xdp-bench is not installed (Debian: apt-get install xdp-tools)"
    else:
        asked = subprocess.run(
            [found, "xsk-drop", "--help"], capture_output=True, text=True, check=False
        )
        if "AF_XDP" in asked.stdout:
            return found
        why = f"{found} has no xsk-drop (xdp-tools before 1.5)"
    print(f"{why}: xdplab is measured alone", file=sys.stderr)
    return None


def measure(bench: Bench, path: str | None, rounds: int) -> list[tuple[Taken, Taken | None]]:
    """Each round's pair: ours and theirs."""
    pairs: list[tuple[Taken, Taken | None]] = []
    for number in range(rounds):
        if path is None:
            pairs.append((bench.ours(), None))
        elif number % 2:
            theirs = bench.theirs(path)
            pairs.append((bench.ours(), theirs))
        else:
            ours = bench.ours()
            pairs.append((ours, bench.theirs(path)))
        print(f"round {number + 1} of {rounds}: {described(*pairs[-1])}", file=sys.stderr)
    return pairs


def described(ours: Taken, theirs: Taken | None) -> str:
    """Two tools in a line, in Mpps."""
    text = f"xdplab {ours.rate_pps / 1e6:.2f} Mpps"
    return text if theirs is None else f"{text}, xdp-bench {theirs.rate_pps / 1e6:.2f} Mpps"


def interval(figure: Estimate) -> str:
    """A figure as text; a few rounds give no interval."""
    if math.isinf(figure.low):
        return f"{figure.point:.2f}"
    return f"{figure.point:.2f} [{figure.low:.2f}, {figure.high:.2f}]"


def main() -> int:
    """Exit code: 0 measured (whatever the ratios), 3 not possible here."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--xdp-bench", help="the program to measure beside, else that on PATH")
    parser.add_argument("--rounds", type=int, default=10, help="pairs of measurements")
    parser.add_argument("--seconds", type=int, default=2, help="for each measurement")
    parser.add_argument("--ring", type=int, default=8192, help="entries of xdplab's rx ring")
    parser.add_argument("--cpu", type=int, default=max(os.sched_getaffinity(0)))
    parser.add_argument("--json", type=Path, help="write every round to this file")
    arguments = parser.parse_args()
    if arguments.rounds < 1 or arguments.seconds < 1:
        parser.error("--rounds and --seconds must be 1 or more")
    try:
        require_kernel_engine()
        path = peer(arguments.xdp_bench)
        with Topology() as topology:
            bench = Bench(topology, arguments.cpu, arguments.ring, arguments.seconds)
            pairs = measure(bench, path, arguments.rounds)
    except XdplabError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    document: dict[str, Any] = {"environment": host.environment(), "rounds": []}
    rates = estimate([ours.rate_pps / 1e6 for ours, _ in pairs], 0.0)
    print(f"xdplab: {interval(rates)} Mpps, median of {len(pairs)} rounds")
    both = [(ours, theirs) for ours, theirs in pairs if theirs is not None]
    if both:
        paired = estimate([ours.rate_pps / theirs.rate_pps for ours, theirs in both], 0.0)
        per_cpu = estimate([ours.per_cpu_s / theirs.per_cpu_s for ours, theirs in both], 0.0)
        met = "PASS" if paired.point >= TARGET else "short"
        print(f"{met}: xdplab over xdp-bench {interval(paired)}; the target is {TARGET}")
        print(f"per second of CPU, generator and softirqs included: {interval(per_cpu)}")
    for ours, theirs in pairs:
        document["rounds"].append(
            {
                tool: {"rate_pps": taken.rate_pps, "packets_per_cpu_s": taken.per_cpu_s}
                for tool, taken in (("xdplab", ours), ("xdp-bench", theirs))
                if taken is not None
            }
        )
    if arguments.json:
        arguments.json.write_text(json.dumps(document, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
