"""Captures: what is read, and what is said of files that are none."""

from __future__ import annotations

import gzip
import lzma
import os
import struct
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scapy.layers.l2 import Ether
from scapy.utils import PcapNgWriter, PcapWriter

from xdplab.errors import CaptureEndError, FrameError
from xdplab.packets.frame import udp_frame
from xdplab.packets.pcap import CapturedFrame, capture_frames

FRAMES = [udp_frame("ipv4", 64).data, udp_frame("ipv6", 100).data, udp_frame("qinq", 1514).data]


ORDERS = pytest.mark.parametrize("order", ["<", ">"], ids=["little", "big"])


def whole(data: bytes) -> CapturedFrame:
    """A frame of which nothing is missing."""
    return CapturedFrame(data)


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
    assert list(capture_frames(written(tmp_path / name))) == [whole(data) for data in FRAMES]


def test_what_is_no_capture_is_a_frame_error(tmp_path: Path) -> None:
    with pytest.raises(FrameError, match="No such file"):
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
    content = written(tmp_path / "a.pcap").read_bytes()
    (tmp_path / "header.pcap").write_bytes(content[:24])
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
    assert all(isinstance(frame.data, bytes) for frame in frames)


def _until_it_ends(path: Path) -> tuple[list[CapturedFrame], FrameError | None]:
    frames: list[CapturedFrame] = []
    try:
        frames.extend(capture_frames(path))
    except FrameError as error:
        return frames, error
    return frames, None


@pytest.mark.parametrize("name", ["a.pcap", "a.pcapng"])
def test_a_capture_that_breaks_off_is_not_taken_for_a_whole_one(tmp_path: Path, name: str) -> None:
    content = written(tmp_path / name).read_bytes()
    lengths = set()
    broken = set()
    for length in range(len(content)):
        path = tmp_path / "cut.cap"
        path.write_bytes(content[:length])
        frames, error = _until_it_ends(path)
        if error is None:
            lengths.add(len(frames))
        elif isinstance(error, CaptureEndError):
            broken.add(len(frames))
            assert f"behind packet {len(frames)}: it ends in the middle (" in str(error)
        else:
            assert not frames
        assert frames == [whole(data) for data in FRAMES[: len(frames)]]
    # Only a cut between two packets leaves a capture, one with fewer packets.
    assert lengths <= {1, 2}
    assert broken == {1, 2}


def test_how_much_of_a_record_is_there_is_said_in_its_own_size(tmp_path: Path) -> None:
    path = written(tmp_path / "a.pcap")
    path.write_bytes(path.read_bytes()[: 24 + 16 + len(FRAMES[0]) + 7])
    with pytest.raises(CaptureEndError, match=r"behind packet 1: .*\(7 of 16 bytes\)"):
        list(capture_frames(path))


def test_a_pipe_is_read_to_its_end(tmp_path: Path) -> None:
    content = written(tmp_path / "a.pcap").read_bytes()
    os.mkfifo(tmp_path / "f.pcap")
    with ThreadPoolExecutor(1) as pool:
        pool.submit((tmp_path / "f.pcap").write_bytes, content)
        frames = list(capture_frames(tmp_path / "f.pcap"))
    assert frames == [whole(data) for data in FRAMES]


@pytest.mark.parametrize(
    ("compress", "words"),
    [(gzip.compress, "gzip.*zcat"), (lzma.compress, "xz.*xzcat")],
    ids=["gzip", "xz"],
)
def test_a_compressed_capture_is_called_so(
    tmp_path: Path, compress: Callable[[bytes], bytes], words: str
) -> None:
    path = tmp_path / "a.pcap.z"
    path.write_bytes(compress(written(tmp_path / "a.pcap").read_bytes()))
    with pytest.raises(FrameError, match=words):
        list(capture_frames(path))


# --- captures built here, field by field


def pcap(order: str, *packets: tuple[bytes, int], link: int = 1, magic: int = 0xA1B2C3D4) -> bytes:
    """A pcap file of (captured bytes, original length); `link` is the whole field."""
    header = struct.pack(f"{order}IHHiIII", magic, 2, 4, 0, 0, 65_535, link)
    return header + b"".join(
        struct.pack(f"{order}IIII", 0, 0, len(data), original) + data for data, original in packets
    )


def padded(data: bytes) -> bytes:
    """To a multiple of four bytes."""
    return data + bytes(-len(data) % 4)


def block(order: str, kind: int, body: bytes) -> bytes:
    """A pcapng block around a body, its length at both ends."""
    length = struct.pack(f"{order}I", 12 + len(padded(body)))
    return struct.pack(f"{order}I", kind) + length + padded(body) + length


def section(order: str) -> bytes:
    """A section header of unknown length."""
    return block(order, 0x0A0D0D0A, struct.pack(f"{order}IHHq", 0x1A2B3C4D, 1, 0, -1))


def option(order: str, code: int, value: bytes) -> bytes:
    """An option; there is more behind it."""
    return struct.pack(f"{order}HH", code, len(value)) + padded(value)


def interface(order: str, *, link: int = 1, snap: int = 0, options: bytes = b"") -> bytes:
    """An interface description."""
    return block(order, 1, struct.pack(f"{order}HHI", link, 0, snap) + options)


def simple(order: str, data: bytes, original: int | None = None) -> bytes:
    """A Simple Packet Block: how much was captured stands nowhere in it."""
    original = len(data) if original is None else original
    return block(order, 3, struct.pack(f"{order}I", original) + data)


def enhanced(
    order: str, data: bytes, original: int | None = None, number: int = 0, options: bytes = b""
) -> bytes:
    """An Enhanced Packet Block of interface `number`."""
    original = len(data) if original is None else original
    header = struct.pack(f"{order}IIIII", number, 0, 0, len(data), original)
    return block(order, 6, header + padded(data) + options)


def read(tmp_path: Path, *parts: bytes) -> list[CapturedFrame]:
    """The frames of a file of these parts."""
    path = tmp_path / "made.cap"
    path.write_bytes(b"".join(parts))
    return list(capture_frames(path))


@ORDERS
@pytest.mark.parametrize("magic", [0xA1B2C3D4, 0xA1B23C4D], ids=["us", "ns"])
def test_pcap_in_either_byte_order_and_unit_of_time(tmp_path: Path, order: str, magic: int) -> None:
    content = pcap(order, *((data, len(data)) for data in FRAMES), magic=magic)
    assert read(tmp_path, content) == [whole(data) for data in FRAMES]


@ORDERS
def test_frames_that_were_captured_in_part_say_so(tmp_path: Path, order: str) -> None:
    data = FRAMES[2]
    cut = CapturedFrame(data[:61], len(data) - 61)
    assert read(tmp_path, pcap(order, (data[:61], len(data)), (data, len(data)))) == [
        cut,
        whole(data),
    ]
    start = section(order) + interface(order, snap=61)
    assert read(tmp_path, start, enhanced(order, data[:61], len(data)), enhanced(order, data)) == [
        cut,
        whole(data),
    ]
    # Here the interface's snapshot length says how much there is.
    assert read(tmp_path, start, simple(order, data[:61], len(data))) == [cut]
    assert read(tmp_path, start, simple(order, data[:61])) == [whole(data[:61])]


def test_an_original_that_is_shorter_than_what_was_captured_is_no_cut(tmp_path: Path) -> None:
    assert read(tmp_path, pcap("<", (FRAMES[0], 14))) == [whole(FRAMES[0])]


@ORDERS
def test_simple_packets_without_a_snapshot_length_are_whole(tmp_path: Path, order: str) -> None:
    # 65 bytes, so that there is padding between packet and length.
    data = FRAMES[0] + b"x"
    packets = (simple(order, data), simple(order, FRAMES[1]))
    assert read(tmp_path, section(order), interface(order), *packets) == [
        whole(data),
        whole(FRAMES[1]),
    ]
    for start in (section(order), section(order) + interface(order) + section(order)):
        with pytest.raises(FrameError, match="interface 0, which is not declared"):
            read(tmp_path, start, simple(order, data))
    with pytest.raises(FrameError, match="a packet of 100 bytes is longer than its block"):
        read(tmp_path, section(order), interface(order), simple(order, data, 100))
    with pytest.raises(FrameError, match="link type 113"):
        read(tmp_path, section(order), interface(order, link=113), simple(order, data))


@ORDERS
def test_the_obsolete_packet_block_is_read_as_well(tmp_path: Path, order: str) -> None:
    data = FRAMES[0]
    # Interface 1 with 7 drops before, in one word.
    header = struct.pack(f"{order}HHIIII", 1, 7, 0, 0, len(data), 1514)
    old = block(order, 2, header + padded(data))
    interfaces = interface(order, link=113) + interface(order)
    assert read(tmp_path, section(order), interfaces, old) == [
        CapturedFrame(data, 1514 - len(data))
    ]
    with pytest.raises(FrameError, match="interface 1, which is not declared"):
        read(tmp_path, section(order), interface(order), old)


@ORDERS
def test_blocks_of_other_kinds_and_a_section_of_the_other_order(tmp_path: Path, order: str) -> None:
    other = {"<": ">", ">": "<"}[order]
    assert read(
        tmp_path,
        *(section(order), block(order, 5, bytes(12)), interface(order)),
        *(block(order, 0x0BAD, b"custom"), enhanced(order, FRAMES[0])),
        *(section(other), interface(other), interface(other)),
        enhanced(other, FRAMES[1], number=1),
    ) == [whole(FRAMES[0]), whole(FRAMES[1])]


FCS = b"\xde\xad\xbe\xef"


@ORDERS
# Two words of 16 bits, or what a writer takes for bytes.
@pytest.mark.parametrize("length", [2, 4])
def test_the_fcs_of_a_pcap_is_no_part_of_its_frames(
    tmp_path: Path, order: str, length: int
) -> None:
    data = FRAMES[0]
    link = length << 28 | 0x0400_0000 | 1
    assert read(
        tmp_path,
        pcap(
            order,
            (data + FCS, len(data) + 4),
            # Cut within the FCS: the frame itself is whole. Cut before it: it is not.
            (data + FCS[:2], len(data) + 4),
            (data, len(data) + 4),
            (data[:-1], len(data) + 4),
            (FCS[:3], 3),
            link=link,
        ),
    ) == [whole(data)] * 3 + [CapturedFrame(data[:-1], 1), whole(b"")]
    # Without the bit that says that the length means something, and with a length of none.
    for nothing in (length << 28 | 1, 0x0400_0000 | 1):
        content = pcap(order, (data + FCS, len(data) + 4), link=nothing)
        assert read(tmp_path, content) == [whole(data + FCS)]


@ORDERS
@pytest.mark.parametrize("unit", [4, 32], ids=["bytes", "bits"])
def test_the_fcs_of_a_pcapng_is_no_part_of_its_frames(
    tmp_path: Path, order: str, unit: int
) -> None:
    data = FRAMES[0]
    named = option(order, 2, b"eth0") + option(order, 13, bytes([unit]))
    start = section(order) + interface(order, options=named + option(order, 0, b""))
    for packet in (simple(order, data + FCS), enhanced(order, data + FCS)):
        assert read(tmp_path, start, packet) == [whole(data)]
    none = section(order) + interface(order, options=option(order, 13, b"\0"))
    assert read(tmp_path, none, enhanced(order, data + FCS)) == [whole(data + FCS)]
    # A packet's own flags, for links whose FCS comes and goes: inbound, four bytes.
    flags = option(order, 2, struct.pack(f"{order}I", 4 << 5 | 1))
    assert (
        read(
            tmp_path,
            *(none, enhanced(order, data + FCS, options=flags), enhanced(order, data)),
            enhanced(order, data, options=option(order, 2, struct.pack(f"{order}I", 1))),
        )
        == [whole(data)] * 3
    )


def test_options_that_leave_their_block_are_damage(tmp_path: Path) -> None:
    long = struct.pack("<HH", 13, 200)
    with pytest.raises(FrameError, match="an option of 200 bytes is longer than its block"):
        read(tmp_path, section("<"), interface("<", options=long))
    # What stands behind the last option is nobody's.
    ended = option("<", 0, b"") + long
    assert read(
        tmp_path, section("<"), interface("<", options=ended), enhanced("<", FRAMES[0])
    ) == [whole(FRAMES[0])]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (section("<")[:8] + bytes(4), "names no byte order"),
        (block("<", 1, bytes(4)), "an interface block is too short"),
        (interface("<") + block("<", 6, bytes(16)), "a packet block is too short"),
        (interface("<") + block("<", 3, b""), "a packet block is too short"),
        (enhanced("<", FRAMES[0]), "interface 0, which is not declared"),
        (interface("<") + struct.pack("<II", 6, 13), "a block of 13 bytes cannot be"),
        (interface("<") + struct.pack("<II", 6, 1 << 30), "a block of 1073741824 bytes"),
        (interface("<") + enhanced("<", FRAMES[0])[:-4] + bytes(4), "two lengths differ"),
        (interface("<") + simple("<", b"", 1 << 30), "a packet of 1073741824 bytes cannot be"),
    ],
)
def test_what_cannot_be_in_a_pcapng_is_said(tmp_path: Path, body: bytes, words: str) -> None:
    with pytest.raises(FrameError, match=words):
        read(tmp_path, section("<"), body)


def test_a_packet_longer_than_any_is_damage(tmp_path: Path) -> None:
    content = pcap("<") + struct.pack("<IIII", 0, 0, 262_145, 262_145)
    with pytest.raises(FrameError, match="a packet of 262145 bytes cannot be"):
        read(tmp_path, content)
