"""Frames out of captures: pcap and pcapng, one at a time, however large the file."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

from xdplab.errors import FrameError

_ETHERNET = 1
"""LINKTYPE_ETHERNET (tcpdump.org, link-layer header types)."""


def capture_frames(path: Path) -> Iterator[bytes]:
    """The frames of a capture in its order, as they were captured.

    FrameError where the file cannot be read, is no capture, breaks off in mid-packet, or holds
    something else than Ethernet frames.
    """
    # Slow to import, and only who reads captures should wait for it.
    from scapy.error import Scapy_Exception
    from scapy.utils import RawPcapNgReader, RawPcapReader

    number = 0
    try:
        with RawPcapReader(str(path)) as reader:
            if not isinstance(reader, RawPcapNgReader) and reader.linktype != _ETHERNET:
                raise FrameError(
                    f"{path} holds frames of link type {reader.linktype}, not Ethernet (1)"
                )
            for data, metadata in reader:
                number += 1
                linktype = getattr(metadata, "linktype", _ETHERNET)
                if linktype != _ETHERNET:
                    raise FrameError(
                        f"packet {number} of {path} has link type {linktype}, not Ethernet (1)"
                    )
                yield data
    except OSError as error:
        raise FrameError(f"reading {path} failed: {error.strerror or error}") from None
    except (Scapy_Exception, EOFError, struct.error) as error:
        where = f"behind packet {number}" if number else "at its start"
        raise FrameError(
            f"reading {path} failed {where}: {str(error) or 'it ends there'}. "
            "Is it a whole pcap or pcapng file?"
        ) from None
    if number == 0:
        raise FrameError(f"{path} holds no packets")
