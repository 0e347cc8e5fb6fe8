"""Metadata before received packets: how user space knows its length.

AF_XDP copies a packet's metadata in front of it but does not say how long it is. So program and
reader agree: on a fixed length, or on a *seal*, which the last program puts between metadata and
packet: four bytes, u16 length and u16 magic, both in the machine's byte order. A frame keeps
what an earlier packet left in it; sockets with sealed metadata therefore break the seal of each
frame before the kernel gets it back.
"""

from __future__ import annotations

from typing import Final, Literal

from xdplab.errors import UsageError

SEALED: Final = "sealed"

Metadata = int | Literal["sealed"] | None
"""A length in bytes, the same for each packet; "sealed"; or None: there is none."""

SEAL_BYTES = 4
SEAL_MAGIC = 0x5844
"""As in bpf/seal.bpf.h."""

_MAXIMUM_BYTES = 252
"""bpf_xdp_adjust_meta's limit: less than 256, in words (xdp_metalen_invalid in net/xdp.h)."""


def check_metadata(metadata: object) -> None:
    """UsageError unless a socket may be told so."""
    if metadata is None or metadata == SEALED:
        return
    if not isinstance(metadata, int) or not 0 < metadata <= _MAXIMUM_BYTES or metadata % 4:
        raise UsageError(
            f"metadata={metadata!r} was asked for; it is a number of bytes, a multiple of 4 up "
            f'to {_MAXIMUM_BYTES}, or "{SEALED}"'
        )


def sealed_length(seal: int) -> int | None:
    """Bytes of metadata by the u32 right before a packet; None where it is no seal."""
    length = seal & 0xFFFF
    if seal >> 16 != SEAL_MAGIC or length % 4 or length > _MAXIMUM_BYTES - SEAL_BYTES:
        return None
    return length
