"""The topology and a packet's way through it, as data and as a drawing: nothing here needs Linux.

outside: v1, v3          dut: v0, v2          pairs: v1-v0, v3-v2
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

OUTSIDE, DUT = "outside", "dut"
"""The two namespaces: what sends and takes packets, and the device under test."""

PAIRS = (("v1", "v0"), ("v3", "v2"))
"""Veth pairs: the end outside, the end of the device under test."""


@dataclass(frozen=True, slots=True)
class Hop:
    """A stop on a packet's way: the interface that it arrives at and what its program returns.

    `action` is the action's name. `leaves` is the interface that it is sent out of, by
    XDP_TX or XDP_REDIRECT; "" where its way ends, or goes on to something else than an interface.
    """

    interface: str
    action: str
    leaves: str = ""


@dataclass(frozen=True, slots=True)
class Path:
    """A packet's whole way: the interface that it is sent out of first, and its hops in order."""

    name: str
    enters: str
    hops: Sequence[Hop]


def mac_of(name: str) -> str:
    """A locally administered address that tells which interface it is: v1 has 02:00:00:00:00:11."""
    return f"02:00:00:00:00:1{name[-1]}"


def draw_topology() -> str:
    """Namespaces and pairs, drawn as text."""
    boxes = [tuple(f"{name}  {mac_of(name)}" for name in pair) for pair in PAIRS]
    width = max(len(text) for box in boxes for text in box)
    rule = f"+-{'-' * width}-+"
    lines = [f"{f'namespace {OUTSIDE}':<{width + 4}}          namespace {DUT}"]
    lines.append(f"{rule}          {rule}")
    lines += [f"| {near:<{width}} |== veth ==| {far:<{width}} |" for near, far in boxes]
    lines.append(f"{rule}          {rule}")
    return "\n".join(lines)


def draw_path(path: Path, programs: Mapping[str, str]) -> str:
    """A packet's way, a hop a line. `programs` names what is attached: interface -> program."""
    return "\n".join(_drawn(path, programs))


def _drawn(path: Path, programs: Mapping[str, str]) -> Iterator[str]:
    peers = {name: peer for one, other in PAIRS for name, peer in ((one, other), (other, one))}
    yield f"sent out of {path.enters}, to arrive at {peers[path.enters]}"
    for hop in path.hops:
        line = f"{hop.interface}: program {programs.get(hop.interface, 'none')}: {hop.action}"
        if hop.leaves:
            line += f", out of {hop.leaves}, to arrive at {peers[hop.leaves]}"
        yield line
