"""`xdplab count`: the same digits everywhere, and clear words for what cannot be counted."""

from __future__ import annotations

import itertools
import json
import re
import signal
import struct
from collections.abc import Iterator, Sequence
from importlib import resources
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from tests.cli.command import WITHOUT_CAPABILITIES, assert_clean_error, redirected, xdplab
from xdplab.cli.count import command
from xdplab.counting import Tally, results_of, tables_of
from xdplab.documents import document_from_json
from xdplab.errors import CompileError
from xdplab.packets.frame import udp_frame
from xdplab.packets.pcap import CapturedFrame
from xdplab.program import compile_object, compiler_version

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
    assert (insns.estimate.low, insns.estimate.high, insns.estimate.n) == (27, 45, 2)
    calls = [
        (r.parameters["helper"], r.estimate.point)
        for r in results
        if r.metric == "calls" and r.estimate
    ]
    assert calls == [("xdp_load_bytes", 6)]
    by_line = sum(r.estimate.point for r in results if r.metric == "line_insns" and r.estimate)
    assert by_line == 27 + 45


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
    cut = f"2 of 4 packets of {path!r} were cut short by their capture, and are taken as captured"
    short = f"1 of 4 packets of {path!r} have no whole Ethernet header and were left out"
    result = xdplab("count", PARSER, "--pcap", path, "--no-store")
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
    result = xdplab("count", PARSER, "--json", "-", "--no-store")
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
            yield CapturedFrame(udp_frame("ipv4", 64).data, int(number == 2))

    monkeypatch.setattr("xdplab.cli.frames.capture_frames", endless)
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
def test_long_counting_says_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xdplab.cli.count._PROGRESS_S", 0.0)
    result = _interrupted(monkeypatch, 3)
    assert [line for line in result.stderr.splitlines() if line.startswith("counted")] == [
        f"counted {number} packets ..." for number in (1, 2, 3)
    ]


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
        *(3, "packet 2 (ipv4:50)", "odd.bpf.c:8", "offset 60 of 50", "counts of 1 packet before"),
    )
    # The packet may be one that its capture cut short.
    assert_clean_error(
        xdplab("count", target, "--pcap", _cut_capture(tmp_path / "cut.pcap")),
        *(3, "1 of 2 packets", "were cut short", "offset 60 of 50", "packet 2 of"),
    )


ONE_OF_EACH = """
#include "xdplab.bpf.h"
char _license[] SEC("license") = "GPL";
SEC("tc") int classify(struct __sk_buff *ctx) { return ctx->len; }
SEC("xdp") int plain(struct xdp_md *ctx) { return XDP_PASS; }
SEC("xdp.frags") int frags(struct xdp_md *ctx) { return XDP_PASS; }
"""


def _made(path: Path, text: str) -> Path:
    path.write_text(text)
    if compiler_version() is None:
        pytest.skip("no compiler for BPF: neither ziglang nor clang is installed")
    return path


def _headers() -> tuple[str, str]:
    return "-I", str(resources.files("xdplab") / "bpf")


def test_other_programs_than_xdps_are_refused(tmp_path: Path) -> None:
    path = str(_made(tmp_path / "each.bpf.c", ONE_OF_EACH))
    words = (2, "classify", 'SEC("tc")', "no XDP program")
    assert_clean_error(xdplab("count", f"{path}:classify", *_headers()), *words, "plain, frags")
    # Nor are they among those that could be meant.
    assert_clean_error(xdplab("count", path, *_headers()), 2, "has 2 programs: plain, frags")
    only = ONE_OF_EACH.replace('SEC("xdp', 'SEC("kprobe/xdp')
    path = str(_made(tmp_path / "other.bpf.c", only))
    assert_clean_error(xdplab("count", path, *_headers()), 2, "no XDP program, only", "kprobe/xdp")


def test_a_frame_of_several_buffers_is_for_programs_that_take_frags(tmp_path: Path) -> None:
    path = str(_made(tmp_path / "each.bpf.c", ONE_OF_EACH))
    large = ("--frame", "ipv4:9000")
    assert xdplab("count", f"{path}:frags", *_headers(), *large).returncode == 0
    assert_clean_error(
        xdplab("count", f"{path}:plain", *_headers(), *large), 2, "ipv4:9000", 'SEC("xdp.frags")'
    )
    capture = tmp_path / "large.pcap"
    capture.write_bytes(_capture([udp_frame("ipv4", size).data for size in (64, 9000)]))
    words = [f"{path}:plain", *_headers(), "--pcap", str(capture), "--json", "-"]
    document = document_from_json(json.loads(xdplab("count", *words).stdout))
    assert [one.code for one in document.warnings] == ["large-packets"]
    assert [r.estimate.n for r in document.results if r.metric == "insns" and r.estimate] == [1]


def test_a_source_names_its_compiler_and_takes_macros(tmp_path: Path) -> None:
    text = ONE_OF_EACH.replace("ctx->len", "ANSWER").replace('SEC("tc")', "static inline")
    text = text.replace("return XDP_PASS", "return ANSWER")
    path = str(_made(tmp_path / "macro.bpf.c", text))
    words = ("count", f"{path}:plain", *_headers(), "-D", "ANSWER=-1")
    result = xdplab(*words)
    assert result.returncode == 0, result.stderr
    assert "retval 4294967295 (-1)" in result.stdout
    version = compiler_version()
    assert version is not None
    shown = " ".join(result.stdout.split())
    assert f"Compiled here by {version} with -O2 -g -mcpu=v3 -DANSWER=-1" in shown
    environment = json.loads(xdplab(*words, "--json", "-").stdout)["environment"]
    assert environment == {"compiler": version, "compiler_flags": "-O2 -g -mcpu=v3 -DANSWER=-1"}
    # An object's counts depend on nobody who is here.
    assert json.loads(xdplab("count", PARSER, "--json", "-").stdout)["environment"] == {}
    assert "XDP_DROP" in xdplab("count", f"{path}:plain", *_headers(), "-D", "ANSWER").stdout


def _capture(packets: Sequence[bytes]) -> bytes:
    content = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65_535, 1)
    for data in packets:
        content += struct.pack("<IIII", 0, 0, len(data), len(data)) + data
    return content


def test_a_fault_keeps_what_was_counted_before_it(tmp_path: Path) -> None:
    source = _made(tmp_path / "odd.bpf.c", SOURCE)
    capture, target = tmp_path / "short.pcap", tmp_path / "counts.json"
    sizes = [64, 10, 64, 10, 50, 64]
    capture.write_bytes(_capture([udp_frame("ipv4", 64).data[:size] for size in sizes]))
    words = ("count", str(source), *_headers(), "--pcap", str(capture), "--json", str(target))
    result = xdplab(*words)
    # The number is the capture's own, those that were left out included.
    assert_clean_error(result, 3, f"ended at packet 5 of {str(capture)!r}", "2 packets before it")
    assert re.search(r"packets +2\b", result.stdout)
    document = document_from_json(json.loads(target.read_text()))
    assert not document.run.complete
    assert [one.code for one in document.warnings] == ["ended-early", "short-packets"]
    assert [r.estimate.n for r in document.results if r.metric == "insns" and r.estimate] == [2]


@pytest.mark.parametrize("missing", [3, 70])
def test_a_capture_that_breaks_off_is_counted_until_there(tmp_path: Path, missing: int) -> None:
    path = tmp_path / "killed.pcap"
    path.write_bytes(_capture([udp_frame("ipv4", 64).data] * 3)[:-missing])
    result = xdplab("count", PARSER, "--pcap", str(path))
    assert result.returncode == 0
    assert "breaks off behind packet 2" in result.stderr
    assert re.search(r"packets +2\b", result.stdout)


def test_a_capture_that_is_damaged_keeps_what_was_before(tmp_path: Path) -> None:
    path = tmp_path / "damaged.pcap"
    content = _capture([udp_frame("ipv4", 64).data] * 2)
    path.write_bytes(content + struct.pack("<IIII", 0, 0, 1 << 30, 1 << 30))
    result = xdplab("count", PARSER, "--pcap", str(path))
    assert_clean_error(result, 2, "failed behind packet 2", "cannot be", "2 packets before it")
    assert re.search(r"packets +2\b", result.stdout)


def test_a_capture_by_standard_input(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(_capture([udp_frame("ipv4", 64).data] * 3))
    result = redirected(f"< {path}", "count", PARSER, "--pcap", "-")
    assert result.returncode == 0, result.stderr
    assert re.search(r"packets +3\b", result.stdout)
    result = redirected("< /dev/null", "count", PARSER, "--pcap", "-")
    assert_clean_error(result, 2, "reading standard input failed")
    assert_clean_error(redirected("<&-", "count", PARSER, "--pcap", "-"), 2, "standard input")


def test_an_endless_program_is_told_its_limits(tmp_path: Path) -> None:
    text = ONE_OF_EACH.replace("return XDP_PASS", "for (;;) *(volatile int *)&ctx->data; return 1")
    source = _made(tmp_path / "endless.bpf.c", text)
    result = xdplab("count", f"{source}:plain", *_headers())
    assert_clean_error(result, 3, "did not end", "10,000,000 instructions and 1 s")


def test_what_is_of_no_line_says_so() -> None:
    lines = {("a.c", 0): 2, ("a.c", 7): 1, ("", 0): 1}
    tally = Tally("a", "p", (4,), {"XDP_DROP": 1}, {}, lines, {("a.c", 7): "x = 1;"})
    _, with_lines, without = sorted(
        tables_of(list(results_of(tally))), key=lambda table: -len(table.rows)
    )
    texts = {row.cells[-1] for table in (with_lines, without) for row in table.rows}
    assert texts == {"x = 1;", "(of no line: the compiler's own)"}


def test_counts_that_nobody_could_read_are_not_made() -> None:
    assert_clean_error(redirected(">&-", "count", PARSER), 3, "output is closed", "--json FILE")


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
        ((PARSER, "-D", "X"), ("-I and -D are for a source", "packet_access.bpf.o")),
        ((__file__, "-D", "1X"), ("'1X' names no macro",)),
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
