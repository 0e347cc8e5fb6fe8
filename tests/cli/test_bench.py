"""`xdplab bench`: one's own programs by their names, frames, constants and maps."""

from __future__ import annotations

import json
import os
import struct
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.command import XDPLAB, assert_clean_error, environment, xdplab
from tests.cli.test_count import OBJECTS
from xdplab.cli.entries import Tables, placed, read_entries
from xdplab.documents import document_from_json
from xdplab.engines.base import Entries
from xdplab.errors import UsageError
from xdplab.packets.frame import udp_frame
from xdplab.program import MapSpec, ObjectSpec, compile_object, read_object
from xdplab.records import RESOLVED, Document

ACCESS = OBJECTS.joinpath("packet_access.bpf.o")

SOURCE = """
#include "xdplab.bpf.h"
char _license[] SEC("license") = "GPL";
static void *(*const lookup)(void *map, const void *key) = (void *)1;
static long (*const adjust_head)(struct xdp_md *ctx, int delta) = (void *)44;
static long (*const redirect)(__u32 ifindex, __u64 flags) = (void *)23;
const volatile __u8 least = 128;
const volatile __u32 out = 0;
__u32 answer = 1;

struct {
	int (*type)[1];
	int (*max_entries)[16];
	__u32 *key;
	__u64 *value;
} blocked SEC(".maps");

SEC("xdp") int by_byte(struct xdp_md *ctx)
{
	__u8 *start = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;

	return start + 61 <= end && start[60] >= least ? XDP_PASS : XDP_DROP;
}

SEC("xdp") int by_map(struct xdp_md *ctx)
{
	__u32 key = 7;

	return lookup(&blocked, &key) ? XDP_DROP : XDP_PASS;
}

SEC("xdp") int by_variable(struct xdp_md *ctx)
{
	return answer;
}

SEC("xdp") int shrinks(struct xdp_md *ctx)
{
	return adjust_head(ctx, 2) ? XDP_ABORTED : XDP_TX;
}

SEC("xdp") int takes_turns(struct xdp_md *ctx)
{
	return ++answer & 1 ? XDP_PASS : XDP_DROP;
}

SEC("xdp") int goes_out(struct xdp_md *ctx)
{
	return redirect(out, 0);
}

SEC("xdp") int goes_astray(struct xdp_md *ctx)
{
	__u8 *start = (void *)(long)ctx->data;

	return start[60000] ? XDP_PASS : XDP_DROP;
}
"""


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The object of SOURCE."""
    folder = tmp_path_factory.mktemp("own")
    source = folder / "own.bpf.c"
    source.write_text(SOURCE)
    target = folder / "own.bpf.o"
    target.write_bytes(compile_object(source, include=(OBJECTS.parent,)))  # type: ignore[attr-defined]
    return target


def bench(*arguments: str, time_s: str = "0.3", engine: str = "user") -> Document:
    """The document of a run that must end well."""
    result = xdplab("bench", *arguments, "--engine", engine, "--time", time_s, "--json", "-")
    assert result.returncode == 0, result.stderr
    return document_from_json(json.loads(result.stdout))


def actions(document: Document) -> dict[str, Any]:
    return {r.variant: r.parameters["action"] for r in document.results if r.baseline == "empty"}


def capture(path: Path, marks: list[int]) -> str:
    """A capture of a packet for each mark, which is its byte 60."""
    content = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65_535, 1)
    for mark in marks:
        data = bytearray(udp_frame("ipv4", 100).data)
        data[60] = mark
        content += struct.pack("<IIII", 0, 0, len(data), len(data)) + data
    path.write_bytes(content)
    return str(path)


def test_one_alone_is_over_the_empty_program_and_others_over_the_first() -> None:
    programs = [f"{ACCESS}:{name}" for name in ("parse_ip_dpa", "parse_ip_load_bytes_2")]
    found = bench(*programs, time_s="1")
    rows = {(r.variant, r.baseline): r for r in found.results}
    assert set(rows) == {
        ("parse_ip_dpa", "empty"),
        ("parse_ip_load_bytes_2", "empty"),
        ("parse_ip_load_bytes_2", "parse_ip_dpa"),
        ("aa-twin", "parse_ip_dpa"),
    }
    slower = rows["parse_ip_load_bytes_2", "parse_ip_dpa"]
    assert slower.estimate is not None
    assert (slower.verdict, slower.estimate.point > 0) == (RESOLVED, True)


def test_tables_say_it_in_words_and_name_what_is_checked() -> None:
    result = xdplab(
        "bench", f"{ACCESS}:parse_ip_dpa", f"{ACCESS}:parse_ip_load_bytes_2",
        "--engine", "user", "--time", "1",
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert "parse_ip_load_bytes_2 on ipv4:64:" in result.stdout
    assert "ns slower than parse_ip_dpa" in " ".join(result.stdout.split())
    assert "Every memory access is checked" in " ".join(result.stdout.split())


@pytest.mark.needs_kernel
def test_the_kernel_measures_them_as_well(own: Path) -> None:
    found = bench(f"{own}:by_map", f"{own}:by_byte", engine="kernel")
    assert actions(found) == {"by_map": "XDP_PASS", "by_byte": "XDP_DROP"}
    assert all(r.estimate is not None for r in found.results)


def test_a_capture_has_a_row_for_each_path_with_its_share(own: Path, tmp_path: Path) -> None:
    path = capture(tmp_path / "a.pcap", [200, 1, 200, 200])
    result = xdplab("bench", f"{own}:by_byte", "--pcap", path, "--engine", "user", "--time", "0.3")
    assert result.returncode == 0, result.stderr
    assert "XDP_PASS, packet 3  75" in result.stdout
    assert "XDP_DROP, packet 2  25" in result.stdout
    assert "all, by share" in result.stdout


def test_constants_and_variables_and_maps_are_as_they_are_given(own: Path, tmp_path: Path) -> None:
    words = [f"{own}:{name}" for name in ("by_byte", "by_variable", "by_map")]
    before = actions(bench(*words))
    assert before == {"by_byte": "XDP_DROP", "by_variable": "XDP_DROP", "by_map": "XDP_PASS"}
    maps = tmp_path / "maps.toml"
    maps.write_text('[blocked]\n"7" = 1\n')
    after = actions(bench(*words, "--set", "least=0", "--set", "answer=2", "--maps", str(maps)))
    assert after == {"by_byte": "XDP_PASS", "by_variable": "XDP_PASS", "by_map": "XDP_DROP"}


@pytest.mark.parametrize("engine", ["user", pytest.param("kernel", marks=pytest.mark.needs_kernel)])
def test_what_does_something_else_when_run_again_is_not_measured(own: Path, engine: str) -> None:
    result = xdplab("bench", f"{own}:takes_turns", "--engine", engine, "--time", "0.3")
    assert_clean_error(result, 3, "takes_turns was left out", "XDP_DROP", "XDP_PASS")
    result = xdplab("bench", f"{own}:shrinks", "--engine", engine, "--time", "0.3")
    assert_clean_error(
        result,
        3,
        "shrinks was left out: it returned XDP_TX with 62 bytes at first, and XDP_ABORTED",
    )


def test_an_access_beyond_the_packet_is_no_figure(own: Path) -> None:
    result = xdplab("bench", f"{own}:goes_astray", "--engine", "user", "--time", "0.3")
    assert_clean_error(result, 3, "goes_astray", "own.bpf.c")


def test_programs_of_one_name_are_told_apart(own: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.bpf.o"
    other.write_bytes(own.read_bytes())
    found = bench(f"{own}:by_map", f"{other}:by_map")
    assert set(actions(found)) == {"own:by_map", "other:by_map"}
    found = bench(f"{own}:by_map", f"{own}:by_map")
    assert set(actions(found)) == {"own:by_map (1)", "own:by_map (2)"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--set", "nosuch=1"], ["no program here has that global", "answer, least, out"]),
        (["--set", "least=300"], ["from 0 to 255"]),
        (["--set", "least"], ["NAME=VALUE"]),
        (["--set", "least=x"], ["hex:00ff"]),
        (["--mode", "op:0"], ["op:N"]),
        (["--mode", "fast"], ["op:N"]),
        (["--frame", "ipv4"], ["KIND:BYTES"]),
        (["--maps", "/nosuch.toml"], ["cannot be read", "No such file"]),
        (["--engine", "live", "--mode", "op:2"], ["--mode op:N is for test runs"]),
        (["--engine", "live", "--ctx", "rx_queue_index=1"], ["--ctx says where a test run"]),
    ],
)
def test_what_cannot_be_meant_is_refused(own: Path, options: list[str], words: list[str]) -> None:
    assert_clean_error(xdplab("bench", f"{own}:by_byte", *options), 2, *words)


def test_an_empty_capture_is_refused(own: Path, tmp_path: Path) -> None:
    path = capture(tmp_path / "a.pcap", [])
    result = xdplab("bench", f"{own}:by_byte", "--pcap", path, "--engine", "user")
    assert_clean_error(result, 2, "holds no packets")


def test_a_capture_of_any_size_is_never_held(own: Path) -> None:
    """300 MB through a pipe, in less memory than 200 MB in all."""
    packet = udp_frame("ipv4", 1500).data
    block = (struct.pack("<IIII", 0, 0, len(packet), len(packet)) + packet) * 1000
    header = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65_535, 1)
    command = ["bench", f"{own}:by_byte", "--pcap", "-", "--engine", "user", "--time", "0.3"]
    with subprocess.Popen(
        [XDPLAB, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment()
    ) as process:
        assert process.stdin is not None
        process.stdin.write(header)
        for _ in range(200):
            process.stdin.write(block)
        process.stdin.close()
        assert process.stdout is not None
        printed = process.stdout.read().decode()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    assert "2048 packets drawn at random from 200000" in " ".join(printed.split())
    assert used.ru_maxrss << 10 < 200_000_000


def test_a_stored_run_is_shown_as_it_was(own: Path, tmp_path: Path) -> None:
    """Tables alone: what is above and below them says when and where."""
    marks = capture(tmp_path / "a.pcap", [200, 1, 200, 200])
    programs = [f"{own}:by_byte", f"{own}:by_map"]
    store = ["--store", str(tmp_path / "s.db")]
    options = ["--pcap", marks, "--engine", "user", "--time", "0.3", "--format", "markdown"]
    ran = xdplab("bench", *programs, *options, *store)
    assert ran.returncode == 0, ran.stderr
    shown = xdplab("show", "last", "--format", "markdown", *store)
    assert shown.returncode == 0, shown.stderr
    rows = [line for line in ran.stdout.splitlines() if line.startswith("|")]
    assert any("all, by share" in row for row in rows)
    assert rows == [line for line in shown.stdout.splitlines() if line.startswith("|")]


# --- live paths


@pytest.mark.needs_kernel
def test_on_a_live_path_each_goes_where_its_action_takes_it(own: Path) -> None:
    """The program that shortens each packet is measured as well: on live paths each is fresh."""
    names = ["by_byte", "by_variable", "shrinks", "goes_out"]
    options = ["--set", "answer=2", "--set", "out=if:v2", "--set", "least=0"]
    programs = [f"{own}:{name}" for name in names]
    found = bench(*programs, *options, engine="live", time_s="2")
    whole = {r.variant: r for r in found.results if r.metric == "gross_ns"}
    assert {name: whole[name].parameters["action"] for name in names} == {
        "by_byte": "XDP_PASS",
        "by_variable": "XDP_PASS",
        "shrinks": "XDP_TX",
        "goes_out": "XDP_REDIRECT",
    }
    assert all(result.estimate and result.estimate.point > 0 for result in whole.values())
    plain = {r.variant: r.baseline for r in found.results if (r.baseline or "").startswith("plain")}
    assert plain == {
        "by_byte": "plain-pass",
        "by_variable": "plain-pass",
        "shrinks": "plain-tx",
        "goes_out": "plain-redirect",
    }


@pytest.mark.needs_kernel
def test_live_programs_know_only_their_own_interfaces(own: Path) -> None:
    result = xdplab("bench", f"{own}:goes_out", "--engine", "live", "--set", "out=if:lo9")
    assert_clean_error(result, 2, "if:lo9", "find the interfaces", "v2")


@pytest.mark.needs_kernel
def test_a_redirect_to_nowhere_is_no_figure(own: Path) -> None:
    result = xdplab("bench", f"{own}:goes_out", "--engine", "live", "--time", "0.5")
    assert result.returncode != 0
    assert "Traceback" not in result.stderr
    assert "goes_out" in result.stderr


# --- entries of maps


def entries_of(tables: Tables, spec: ObjectSpec, path: Path | None) -> dict[str, Entries]:
    def none(_name: str) -> int:
        raise AssertionError("no interface was named")

    return placed(tables, spec, path, none)[1]


def _spec(key: int, value: int) -> ObjectSpec:
    made = {"m": MapSpec("m", 1, "hash", key, value, 4)}
    return ObjectSpec("o", b"", "GPL", "little", {}, {}, made, {}, {}, {})


@given(st.integers(-(2**31), 2**32 - 1))
def test_numbers_stand_as_the_program_reads_them(number: int) -> None:
    ((key, value),) = entries_of({"m": {str(number): number}}, _spec(4, 8), None)["m"]
    assert int.from_bytes(key, "little") == number % 2**32
    assert int.from_bytes(value, "little") == number % 2**64


@pytest.mark.parametrize(
    ("value", "size", "raw"),
    [
        ("192.0.2.1", 4, "c0000201"),
        ("2001:db8::1", 16, "20010db8" + 22 * "0" + "01"),
        ("02:00:00:00:00:2a", 6, "02000000002a"),
        ("hex:00ff", 2, "00ff"),
        (["u32:8", "192.0.2.0"], 8, "08000000c0000200"),
        (["be16:80", "u16:80"], 4, "00505000"),
    ],
)
def test_values_stand_as_they_do_in_packets(value: object, size: int, raw: str) -> None:
    ((_, found),) = entries_of({"m": {"0": value}}, _spec(4, size), None)["m"]
    assert found.hex() == raw


@pytest.mark.parametrize(
    "value", [300, "192.0.2.1", "hex:0", "x", 1.5, None, True, ["u8:300"], {"a": 1}]
)
def test_values_that_do_not_fit_are_refused(value: object) -> None:
    with pytest.raises(UsageError, match="the value of m at 0"):
        entries_of({"m": {"0": value}}, _spec(4, 1), Path("maps.toml"))


def test_more_entries_than_a_map_holds_are_refused() -> None:
    with pytest.raises(UsageError, match="5 entries for m, which holds 4"):
        entries_of({"m": {str(key): 0 for key in range(5)}}, _spec(4, 1), Path("maps.toml"))


@pytest.mark.parametrize("held", [["by"], {"a": 1}, 3, "nosuch"])
def test_a_map_of_programs_takes_their_names_alone(held: object) -> None:
    jumps = MapSpec("jumps", 3, "prog_array", 4, 4, 2)
    spec = ObjectSpec("o", b"", "GPL", "little", {}, {}, {"jumps": jumps}, {}, {}, {})
    with pytest.raises(UsageError, match="holds each program by its name in this object"):
        entries_of({"jumps": {"0": held}}, spec, None)


@pytest.mark.parametrize(
    ("name", "text"), [("a.json", "{"), ("a.toml", "= 3"), ("a.json", "[1]"), ("a.toml", "a = 1")]
)
def test_a_file_of_another_sort_is_refused(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(UsageError, match=name):
        read_entries(tmp_path / name)


def test_the_example_compiles_to_four_programs() -> None:
    source = Path("examples/bench/filter.bpf.c")
    if not Path("/usr/include/bpf/bpf_helpers.h").exists():
        pytest.skip("libbpf's headers are not installed (libbpf-dev)")
    spec = read_object(compile_object(source), "filter")
    assert set(spec.programs) == {"plain", "same", "lookup", "stores"}
