"""The ways that packets can take through a topology on the live engine, as data.

The program at v0, the device under test, is the subject's own; what is attached elsewhere, and
where packets are counted at the end, is the way's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from xdplab.errors import UsageError
from xdplab.net.path import Hop, Path, draw_path, draw_topology

DEVICE = "v0"
"""Where the program under test is."""

OBJECT = "paths"
"""The shipped object whose programs count: those of the ways' ends, and of most subjects."""

OUT = "v2"
"""Where the device's redirected packets must go out."""

LIVE_FRAMES = "live-frames"
"""A way without interfaces: the program itself is the test run's, frames go nowhere else."""


@dataclass(frozen=True, slots=True)
class Way:
    """A path with the programs of OBJECT at its other hops (interface -> program).

    `to` is the interface whose MAC address packets have. `behind` is what the path goes on to
    behind its last hop: "cpu" (the program `in_thread` in the map of CPUs), "socket" (AF_XDP), or
    "".
    """

    path: Path
    to: str
    programs: Mapping[str, str] = field(default_factory=dict)
    behind: str = ""
    in_thread: str = "sink_cpu"


def _sent_back(action: str) -> Sequence[Hop]:
    return Hop(DEVICE, "XDP_TX", DEVICE), Hop("v1", action)


def _redirected(action: str) -> Sequence[Hop]:
    return Hop(DEVICE, "XDP_REDIRECT", OUT), Hop("v3", action)


WAYS: Mapping[str, Way] = {
    "drop": Way(Path("drop", "v1", (Hop(DEVICE, "XDP_DROP"),)), DEVICE),
    "pass": Way(Path("pass", "v1", (Hop(DEVICE, "XDP_PASS"),)), DEVICE),
    "tx-drop": Way(Path("tx-drop", "v1", _sent_back("XDP_DROP")), "v1", {"v1": "sink_drop"}),
    "tx-pass": Way(Path("tx-pass", "v1", _sent_back("XDP_PASS")), "v1", {"v1": "sink_pass"}),
    "redirect-drop": Way(
        Path("redirect-drop", "v1", _redirected("XDP_DROP")), "v3", {"v3": "sink_drop"}
    ),
    "redirect-pass": Way(
        Path("redirect-pass", "v1", _redirected("XDP_PASS")), "v3", {"v3": "sink_pass"}
    ),
    "cpu-drop": Way(Path("cpu-drop", "v1", (Hop(DEVICE, "XDP_REDIRECT"),)), DEVICE, behind="cpu"),
    "redirect-trait": Way(
        Path("redirect-trait", "v1", _redirected("XDP_DROP")), "v3", {"v3": "sink_getting"}
    ),
    "cpu-trait": Way(
        Path("cpu-trait", "v1", (Hop(DEVICE, "XDP_REDIRECT"),)),
        DEVICE,
        behind="cpu",
        in_thread="sink_cpu_getting",
    ),
    "xsk-drop": Way(
        Path("xsk-drop", "v1", (Hop(DEVICE, "XDP_REDIRECT"),)), DEVICE, behind="socket"
    ),
}
"""Name of a way, a value of the data path's `way`."""

WAY_OF_ACTION = {
    "XDP_ABORTED": "drop",
    "XDP_DROP": "drop",
    "XDP_PASS": "pass",
    "XDP_TX": "tx-drop",
    "XDP_REDIRECT": "redirect-drop",
}
"""Where packets go by what a program returns. A driver drops, and counts so, what is aborted; a
redirect must be to OUT."""

PACKETS = {"frames": 8000, "skb": 4000, "ring": 2000}
"""Packets a call by generator: some half a millisecond to two, so that a call's own 10 us are a
small part, and most calls end before the scheduler looks for somebody else."""


def explain(way: str, program: str) -> str:
    """A way with that program at v0, a hop a line."""
    known = WAYS[way]
    text = draw_path(known.path, {DEVICE: program, **known.programs})
    behind = {
        "cpu": f", to the map of CPUs: program {known.in_thread} there: XDP_DROP",
        "socket": ", to an AF_XDP socket, and dropped by its reader",
    }
    return text + behind.get(known.behind, "")


def topology() -> str:
    """The topology that every way has of its own, drawn."""
    return f"{draw_topology()}\nNAPI inline, one queue, IPv6 off, MTU 1500"


CHOOSABLE = {"napi": ("inline", "threaded")}
"""What a run may choose of the data path: where the drivers' receive loops run."""


DATAPATH: Mapping[str, Sequence[str]] = {
    "way": (*WAYS, LIVE_FRAMES),
    "generator": tuple(PACKETS),
    "mode": ("native", "generic"),
    **CHOOSABLE,
}
"""What the live engine has of a data path; a subject names its way, and who makes its packets."""


def check_choice(name: str, value: str) -> None:
    """UsageError where a run may not choose that."""
    if value not in CHOOSABLE[name]:
        raise UsageError(
            f"--datapath {name}={value} was asked for; it must be {' or '.join(CHOOSABLE[name])}"
        )
