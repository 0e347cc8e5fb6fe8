"""A packet's way from interface to interface, as data: nothing here needs Linux."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


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
