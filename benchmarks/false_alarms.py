"""How often `xdplab bench` finds a difference between a program and itself.

    .venv/bin/python benchmarks/false_alarms.py [--runs 100] [--time 2] [--engine kernel]

Each run compares a program with a second copy of it, as a user would two objects, by the command's
own suite, and asks for its verdict. At 95 % one run in twenty may call them different. Runs differ
in the program (of the shipped ways to read a packet), so that no single one decides. Prints each
false alarm and their number; exits 1 where that is above five in a hundred.
"""

from __future__ import annotations

import argparse
import itertools
import sys

from xdplab.cli.running import Run
from xdplab.engines.base import Engine
from xdplab.experiment import Stop
from xdplab.packets.frame import udp_frame
from xdplab.program.shipped import shipped_object
from xdplab.records import RESOLVED, Result
from xdplab.suites.own import FrameClass, Own, own_suite

PROGRAMS = ("parse_ip_dpa", "parse_ip_load_bytes_1", "parse_ip_load_bytes_2", "read_data")
ALLOWED = 0.05


def engine(name: str) -> Engine:
    """The engine of that name."""
    if name == "user":
        from xdplab.engines.user import UserEngine

        return UserEngine()
    from xdplab.engines.kernel import KernelEngine

    return KernelEngine()


def compared(program: str, chosen: Engine, time_s: float) -> Result:
    """What a run says of the program against its copy."""
    spec = shipped_object("packet_access")
    pair = [Own(name, spec, program) for name in ("a", "b")]
    frames = [FrameClass("ipv4:64", udp_frame("ipv4", 64), 1.0)]
    with Stop().on_signals() as stop:
        run = Run([own_suite(pair, frames, None)], {}, [chosen], time_s, stop)
        run.measure(None, None)
        if stop.asked:
            sys.exit(130)
    (found,) = (r for r in run.document().results if (r.variant, r.baseline) == ("b", "a"))
    return found


def main() -> int:
    """Compare as often as asked for; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--time", type=float, default=2.0, dest="time_s")
    parser.add_argument("--engine", choices=("kernel", "user"), default="kernel")
    arguments = parser.parse_args()
    chosen = engine(arguments.engine)
    alarms = 0
    widest_ns = 0.0
    for number, program in zip(range(arguments.runs), itertools.cycle(PROGRAMS), strict=False):
        found = compared(program, chosen, arguments.time_s)
        figure = found.estimate
        if figure is None:
            print(f"run {number + 1}: {program} was not measured: {found.note}")
            return 1
        widest_ns = max(widest_ns, abs(figure.point))
        if found.verdict == RESOLVED:
            alarms += 1
            print(
                f"run {number + 1}: {program} and itself: {figure.point:+.3f} "
                f"[{figure.low:+.3f}, {figure.high:+.3f}] ns, resolution {found.resolution}"
            )
    print(
        f"{alarms} false alarms in {arguments.runs} comparisons of {arguments.time_s:g} s on the "
        f"{arguments.engine} engine; the largest difference was {widest_ns:.3f} ns"
    )
    return 1 if alarms > ALLOWED * arguments.runs else 0


if __name__ == "__main__":
    sys.exit(main())
