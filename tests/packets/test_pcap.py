"""Captures: what is read, and what is said of files that are none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scapy.layers.l2 import Ether
from scapy.utils import PcapNgWriter, PcapWriter

from xdplab.errors import FrameError
from xdplab.packets.frame import udp_frame
from xdplab.packets.pcap import capture_frames

FRAMES = [udp_frame("ipv4", 64).data, udp_frame("ipv6", 100).data, udp_frame("qinq", 1514).data]


def written(path: Path, *, linktype: int = 1) -> Path:
    """FRAMES in a capture whose format its name says."""
    writer = (
        PcapNgWriter(str(path))
        if path.suffix == ".pcapng"
        else PcapWriter(str(path), linktype=linktype, sync=True)
    )
    for data in FRAMES:
        writer.write(Ether(data) if path.suffix == ".pcapng" else data)
    writer.close()
    return path


@pytest.mark.parametrize("name", ["a.pcap", "a.pcapng"])
def test_frames_come_in_their_order_byte_for_byte(tmp_path: Path, name: str) -> None:
    assert list(capture_frames(written(tmp_path / name))) == FRAMES


def test_what_is_no_capture_is_a_frame_error(tmp_path: Path) -> None:
    with pytest.raises(FrameError, match="not there"):
        list(capture_frames(tmp_path / "none.pcap"))
    (tmp_path / "empty.pcap").write_bytes(b"")
    (tmp_path / "text.pcap").write_text("this is no capture at all, but it is long enough")
    for name in ("empty.pcap", "text.pcap"):
        with pytest.raises(FrameError, match=name):
            list(capture_frames(tmp_path / name))


def test_frames_of_other_links_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FrameError, match="link type 113"):
        list(capture_frames(written(tmp_path / "cooked.pcap", linktype=113)))


def test_a_capture_without_packets_says_so(tmp_path: Path) -> None:
    whole = written(tmp_path / "a.pcap").read_bytes()
    (tmp_path / "header.pcap").write_bytes(whole[:24])
    with pytest.raises(FrameError, match="no packets"):
        list(capture_frames(tmp_path / "header.pcap"))


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_damaged_captures_give_frames_or_a_frame_error(tmp_path: Path, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(["a.pcap", "a.pcapng"]))
    content = bytearray(written(tmp_path / name).read_bytes())
    del content[data.draw(st.integers(0, len(content))) :]
    for _ in range(data.draw(st.integers(0, 4))):
        if content:
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path / f"damaged-{name}"
    path.write_bytes(bytes(content))
    try:
        frames = list(capture_frames(path))
    except FrameError:
        return
    assert all(isinstance(frame, bytes) for frame in frames)


@pytest.mark.parametrize("name", ["a.pcap", "a.pcapng"])
def test_a_capture_that_breaks_off_is_not_taken_for_a_whole_one(tmp_path: Path, name: str) -> None:
    whole = written(tmp_path / name).read_bytes()
    lengths = set()
    for length in range(len(whole)):
        path = tmp_path / "cut.cap"
        path.write_bytes(whole[:length])
        try:
            lengths.add(len(list(capture_frames(path))))
        except FrameError:
            continue
    # Only a cut between two packets leaves a capture, one with fewer packets.
    assert lengths <= {1, 2}


def test_a_fifo_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "f.pcap")
    with pytest.raises(FrameError, match="no file"):
        list(capture_frames(tmp_path / "f.pcap"))
