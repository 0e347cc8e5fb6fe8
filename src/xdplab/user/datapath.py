"""Variants of what lies around programs on the user-space engine, by name and value."""

from __future__ import annotations

from collections.abc import Mapping

from xdplab.errors import UsageError
from xdplab.user.abi import ClearHead, Move, SkbReuse

VETH_MODEL = "veth-model"
"""Value of `receive`: packets go through a model of veth's receive path (user/veth_model.py)."""

DATAPATH: Mapping[str, Mapping[str, int]] = {
    "clear_head": {
        "none": ClearHead.NONE,
        "memset": ClearHead.MEMSET,
        "rep-stosb": ClearHead.REP_STOSB,
        "words": ClearHead.WORDS,
        "constant": ClearHead.CONSTANT,
    },
    "trait_move": {"memmove": Move.MEMMOVE, "words": Move.WORDS},
    "receive": {"ring": 0, VETH_MODEL: 1},
    "skb_reuse": {"off": SkbReuse.OFF, "napi-cache": SkbReuse.NAPI_CACHE},
}
"""Variants of the data path by name and value, the default first: how adjust_head clears the bytes
that it exposes, how it moves metadata, how packets come to the program (packet method), and what
the veth model does with skb heads whose frame goes on. All are compiled from the same source."""

CHOOSABLE = ("clear_head", "trait_move", "skb_reuse")
"""What a run may choose, where its suites leave it open. How packets come is a suite's to say: its
tables tell what a model is."""


def datapath_value(name: str, value: str) -> int:
    """The number behind a data-path variant; UsageError where there is none of that name."""
    values = DATAPATH.get(name)
    if values is None:
        raise UsageError(f"there is no data-path variant {name!r}; there are {', '.join(DATAPATH)}")
    if value not in values:
        raise UsageError(f"{name} can be {', '.join(values)}, not {value!r}")
    return values[value]


def check_choice(chosen: Mapping[str, str]) -> None:
    """UsageError where a run may not choose these for subjects that leave them open."""
    for name, value in chosen.items():
        if name not in CHOOSABLE:
            raise UsageError(
                f"a run cannot choose {name!r} of the data path; it may choose "
                f"{', '.join(CHOOSABLE)}"
            )
        datapath_value(name, value)
