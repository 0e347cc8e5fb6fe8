"""`xdplab count`: the same digits everywhere, and clear words for what cannot be counted."""

from __future__ import annotations

import itertools
import json
import re
import signal
import struct
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from tests.cli.command import WITHOUT_CAPABILITIES, assert_clean_error, redirected, xdplab
from xdplab.cli.count import command
from xdplab.documents import document_from_json
from xdplab.errors import CompileError
from xdplab.packets.frame import udp_frame
from xdplab.packets.pcap import CapturedFrame
from xdplab.program import compile_object

OBJECTS = resources.files("xdplab").joinpath("bpf", "objects")
PARSER = f"{OBJECTS.joinpath('packet_access.bpf.o')}:parse_ip_load_bytes_2"

SOURCE = """
#include "xdplab.bpf.h"
char _license[] SEC("license") = "GPL";
SEC("xdp") int odd(struct xdp_md *ctx)
{
	char *start = frame_data(ctx);

	return start[60] & 1 ? XDP_PASS : XDP_DROP;
}
"""


def test_counts_are_exact_and_the_same_every_time() -> None:
    arguments = ("count", PARSER, "--frame", "ipv4:64", "--frame", "qinq:128", "--json", "-")
    first, second = (json.loads(xdplab(*arguments).stdout) for _ in range(2))
    assert first["results"] == second["results"]
    results = document_from_json(first).results
    (insns,) = [r for r in results if r.metric == "insns"]
    assert insns.estimate is not None
    # Two tags are two more loads and their checks; the digits are those of the object's code.
    assert (insns.estimate.low, insns.estimate.high, insns.estimate.n) == (26, 44, 2)
    calls = [
        (r.parameters["helper"], r.estimate.point)
        for r in results
        if r.metric == "calls" and r.estimate
    ]
    assert calls == [("xdp_load_bytes", 6)]
    by_line = sum(r.estimate.point for r in results if r.metric == "line_insns" and r.estimate)
    assert by_line == 26 + 44


def test_the_listing_has_sources_and_shares() -> None:
    result = xdplab("count", PARSER)
    assert result.returncode == 0, result.stderr
    for words in ("packet_access.bpf.c", "bpf_xdp_load_bytes(ctx, 0, header", "XDP_DROP", "%"):
        assert words in result.stdout


def test_no_privilege_is_needed() -> None:
    result = xdplab("count", PARSER, prefix=WITHOUT_CAPABILITIES)
    assert result.returncode == 0, result.stderr


def test_frames_from_captures(tmp_path: Path) -> None:
    from scapy.utils import PcapWriter

    path = tmp_path / "a.pcap"
    with PcapWriter(str(path), linktype=1, sync=True) as writer:
        for size in (64, 200, 1500):
            writer.write(udp_frame("ipv4", size).data)
    result = xdplab("count", PARSER, "--pcap", str(path), "--json", "-")
    (insns,) = [
        r for r in document_from_json(json.loads(result.stdout)).results if r.metric == "insns"
    ]
    assert insns.estimate is not None
    assert insns.estimate.n == 3


def _cut_capture(path: Path) -> str:
    """Four packets: one whole, two cut short, one without a whole Ethernet header."""
    data = udp_frame("ipv4", 200).data
    content = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65_535, 1)
    for length in (200, 50, 64, 10):
        content += struct.pack("<IIII", 0, 0, length, len(data)) + data[:length]
    path.write_bytes(content)
    return str(path)


def test_packets_that_a_capture_cut_short_are_told(tmp_path: Path) -> None:
    path = _cut_capture(tmp_path / "cut.pcap")
    cut = f"2 of 4 packets of {path!r} were cut short by their capture, and are counted as captured"
    short = f"1 of 4 packets of {path!r} have no whole Ethernet header and were left out"
    result = xdplab("count", PARSER, "--pcap", path)
    assert result.returncode == 0
    assert result.stderr.splitlines() == [
        f"xdplab: {cut} -> capture whole packets (tcpdump -s 0)",
        f"xdplab: {short}",
    ]
    # A table that is pasted somewhere takes it along.
    assert cut in " ".join(result.stdout.split())
    document = document_from_json(
        json.loads(xdplab("count", PARSER, "--pcap", path, "--json", "-").stdout)
    )
    assert [(one.code, one.message) for one in document.warnings] == [
        ("cut-packets", cut),
        ("short-packets", short),
    ]


def test_packets_that_are_whole_need_no_word() -> None:
    result = xdplab("count", PARSER, "--json", "-")
    assert result.stderr == ""
    assert json.loads(result.stdout)["warnings"] == []


@pytest.fixture
def _sigint_is_pythons_own() -> Iterator[None]:
    """Whoever runs the tests may ignore SIGINT, as a shell's background jobs do."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def _interrupted(
    monkeypatch: pytest.MonkeyPatch, at_packet: int, *arguments: str, signals: int = 1
) -> Result:
    """Counts an endless capture, in which Ctrl-C comes while a packet is read."""

    def endless(_path: Path) -> Iterator[CapturedFrame]:
        for number in itertools.count(1):
            if number == at_packet:
                for _ in range(signals):
                    signal.raise_signal(signal.SIGINT)
            yield CapturedFrame(udp_frame("ipv4", 64).data, is_cut=number == 2)

    monkeypatch.setattr("xdplab.cli.objects.capture_frames", endless)
    words = [PARSER, "--pcap", "endless.pcap", *arguments]
    return CliRunner().invoke(command, words, standalone_mode=False)


@pytest.mark.usefixtures("_sigint_is_pythons_own")
@pytest.mark.parametrize(("at_packet", "told"), [(1, "1 packet"), (5, "5 packets")])
def test_ctrl_c_keeps_the_counts_until_then(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, at_packet: int, told: str
) -> None:
    target = tmp_path / "counts.json"
    result = _interrupted(monkeypatch, at_packet, "--format", "org", "--json", str(target))
    assert result.exception is None
    assert result.return_value == 130
    assert f"xdplab: interrupted after {told}; " in result.stderr
    assert ("1 of 5 packets" in result.stderr) == (at_packet == 5)
    # The tables are those of what was counted, and whoever reads them elsewhere knows it.
    assert f"- interrupted after {told}\n" in result.stdout
    assert re.search(rf"\| packets +\| +{at_packet} \|", result.stdout)
    assert "bpf_xdp_load_bytes(ctx, 0, header" in result.stdout
    document = document_from_json(json.loads(target.read_text()))
    assert not document.run.complete
    (insns,) = [r for r in document.results if r.metric == "insns"]
    assert insns.estimate is not None
    assert insns.estimate.n == at_packet
    lines = [r.estimate.point for r in document.results if r.metric == "line_insns" and r.estimate]
    assert sum(lines) == at_packet * insns.estimate.point


@pytest.mark.usefixtures("_sigint_is_pythons_own")
def test_impatience_ends_counting_as_it_ends_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    # Twice costs nothing, for the tables take a moment.
    assert _interrupted(monkeypatch, 3, signals=2).return_value == 130
    result = _interrupted(monkeypatch, 3, signals=3)
    assert isinstance(result.exception, (KeyboardInterrupt, click.Abort))
    assert result.stdout == ""
    # Nobody else's signals are held any longer.
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_the_document_is_written_whatever_becomes_of_the_tables(tmp_path: Path) -> None:
    target = tmp_path / "counts.json"
    result = redirected("> /dev/full", "count", PARSER, "--json", str(target))
    assert_clean_error(result, 3, "writing the output failed")
    assert document_from_json(json.loads(target.read_text())).run.complete


def test_an_access_outside_of_the_packet_names_line_and_bounds(tmp_path: Path) -> None:
    """The verifier would refuse it; here the packet is ended before harm is done."""
    source = tmp_path / "odd.bpf.c"
    source.write_text(SOURCE)
    with resources.as_file(resources.files("xdplab") / "bpf") as headers:
        try:
            data = compile_object(source, include=[headers])
        except CompileError as error:
            pytest.skip(f"no compiler for BPF: {error}")
    (tmp_path / "odd.bpf.o").write_bytes(data)
    target = str(tmp_path / "odd.bpf.o")
    assert xdplab("count", target, "--frame", "ipv4:64").returncode == 0
    assert_clean_error(
        xdplab("count", target, "--frame", "ipv4:64", "--frame", "ipv4:50"),
        *(3, "packet 2", "odd.bpf.c:8", "offset 60 of 50"),
    )
    # The packet may be one that its capture cut short.
    assert_clean_error(
        xdplab("count", target, "--pcap", _cut_capture(tmp_path / "cut.pcap")),
        *(3, "1 of 2 packets", "were cut short", "offset 60 of 50"),
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("/nowhere.bpf.o",), ("/nowhere.bpf.o",)),
        ((f"{PARSER}x",), ("parse_ip_load_bytes_2x", "no_touch")),
        ((PARSER.rpartition(":")[0],), ("11 programs", "Name one")),
        ((PARSER, "--frame", "ipv4"), ("KIND:BYTES",)),
        ((PARSER, "--frame", "ipx:64"), ("ipx", "qinq")),
        ((PARSER, "--frame", "ipv4:20"), ("42",)),
        ((PARSER, "--frame", "ipv4:6_4"), ("'ipv4:6_4'", "KIND:BYTES")),
        ((PARSER, "--frame", "ipv4:\u0666\u0664"), ("KIND:BYTES",)),
        ((PARSER, "--frame", ""), ("''", "KIND:BYTES")),
        ((PARSER, "--pcap", "/nowhere.pcap"), ("/nowhere.pcap",)),
        ((PARSER, "--pcap", ""), ("'--pcap'", "an empty name is no file", "Give a file's path")),
        (("",), ("there is no file ''", "OBJ:PROG")),
        ((":drop",), ("there is no file ''", "OBJ:PROG")),
        ((".",), ("it is a directory",)),
        ((PARSER.rpartition(":")[0] + ":",), ("names no program behind its colon", "OBJ:PROG")),
        (("a" * 300,), ("there is no file 'aaa", "OBJ:PROG")),
        (("a" * 300 + ":drop",), ("there is no file 'aaa", "OBJ:PROG")),
        (("/etc/passwd",), ("/etc/passwd",)),
    ],
)
def test_usage_errors(arguments: tuple[str, ...], words: tuple[str, ...]) -> None:
    assert_clean_error(xdplab("count", *arguments), 2, *words)
