"""Packets on real interfaces. What AF_XDP needs is here under its own names: docs/af-xdp.md."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xdplab.net.xsk import (
        DESCRIPTOR,
        SEALED,
        Batch,
        Tally,
        Umem,
        Xsk,
        XskProgram,
        XskStatistics,
        drop_loop,
        send_back_loop,
    )

__all__ = [
    "DESCRIPTOR",
    "SEALED",
    "Batch",
    "Tally",
    "Umem",
    "Xsk",
    "XskProgram",
    "XskStatistics",
    "drop_loop",
    "send_back_loop",
]


def __getattr__(name: str) -> object:
    # numpy takes a tenth of a second to import: not for those who came for an interface.
    if name in __all__:
        from xdplab.net import xsk

        value: object = getattr(xsk, name)
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
