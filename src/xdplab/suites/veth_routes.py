"""The rows of suite veth: ways of packets, and who published what of them."""

from __future__ import annotations

from dataclasses import dataclass

from xdplab.engines.base import XDP_DROP, XDP_REDIRECT, XDP_TX
from xdplab.suites import veth_model

DROP = "drop"
"""The way that all others are compared with: v0 drops."""

NATIVE, GENERIC = "native", "generic"
"""Modes of the program at v0."""

FRAME_BYTES = 64


@dataclass(frozen=True, slots=True)
class Route:
    """A row: the variant's stable name, what it says, v0's program and what it must return.

    `way` is the live engine's name of the way. `published` names the row of PUBLISHED_PPS.
    """

    variant: str
    title: str
    program: str
    action: int
    way: str
    published: str = ""


ROUTES = (
    Route(DROP, "-> v0 DROP", "drop", XDP_DROP, "drop"),
    Route("tx-drop", "-> v0 TX -> v1 DROP", "tx", XDP_TX, "tx-drop", "tx-drop"),
    Route("tx-pass", "-> v0 TX -> v1 PASS", "tx", XDP_TX, "tx-pass", "tx-pass"),
    Route(
        "redirect-drop",
        "-> v0 REDIRECT -> v2 -> v3 DROP",
        "redirect",
        XDP_REDIRECT,
        "redirect-drop",
        "redirect-drop",
    ),
    Route(
        "redirect-pass",
        "-> v0 REDIRECT -> v2 -> v3 PASS",
        "redirect",
        XDP_REDIRECT,
        "redirect-pass",
        "redirect-pass",
    ),
    Route(
        "xsk-drop",
        "-> v0 AF_XDP -> user space",
        "redirect_socket",
        XDP_REDIRECT,
        "xsk-drop",
        "xsk-drop",
    ),
    Route(
        "redirect-map-drop",
        "-> v0 REDIRECT by devmap -> v2 -> v3 DROP",
        "redirect_map",
        XDP_REDIRECT,
        "redirect-drop",
    ),
    Route(
        "redirect-trait",
        "-> v0 set a trait, REDIRECT -> v2 -> v3 get it, DROP",
        "redirect_setting",
        XDP_REDIRECT,
        "redirect-trait",
    ),
    Route("cpu-drop", "-> v0 REDIRECT by cpumap DROP", "redirect_cpu", XDP_REDIRECT, "cpu-drop"),
    Route(
        "cpu-trait",
        "-> v0 set a trait, REDIRECT by cpumap get it, DROP",
        "redirect_cpu_setting",
        XDP_REDIRECT,
        "cpu-trait",
    ),
)

CARRYING = {"redirect-trait": "redirect-drop", "cpu-trait": "cpu-drop"}
"""Ways that carry a trait -> the same way without one."""

BOTH_MODES = tuple(route for route in ROUTES if route.variant in {DROP, "tx-drop", "redirect-drop"})
"""Ways that are measured in both modes."""

GENERATORS = {"skb": "skbs", "frames": "live frames"}
"""Generators of the published ways, and what makes up their packets."""

PUBLISHED_PPS = {**veth_model.PUBLISHED_PPS, "xsk-drop": (1_811_844, 1_861_027, "~3")}
"""Packets per second before and after; the model has no AF_XDP."""


def parameters(generator: str, mode: str = NATIVE) -> dict[str, int | str]:
    """What tells a way's results from those of another generator or mode."""
    return {"generator": generator, "mode": mode, "frame_bytes": FRAME_BYTES}
