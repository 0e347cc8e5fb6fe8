"""The Python way in: packets run on both engines, maps, counts, and two programs measured."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest

from tests.conftest import WHY_NO_KERNEL
from xdplab import lab
from xdplab.errors import FrameError, NotPossibleError, UsageError, XdplabError
from xdplab.packets.frame import Frame, udp_frame
from xdplab.store.store import Store

FILTER = Path(__file__).parents[2] / "examples" / "pytest-project" / "src" / "ports.bpf.c"

SOURCE = """
#include <linux/bpf.h>
#include <linux/types.h>
#define SEC(name) __attribute__((section(name), used))
static void *(*const bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static long (*const bpf_xdp_adjust_head)(struct xdp_md *ctx, int delta) = (void *)44;
static long (*const bpf_xdp_adjust_meta)(struct xdp_md *ctx, int delta) = (void *)54;
char _license[] SEC("license") = "GPL";
struct { int (*type)[BPF_MAP_TYPE_PERCPU_ARRAY]; __u32 *key; __u64 *value; int (*max_entries)[4]; }
    counts SEC(".maps");
__u32 seen;
SEC("xdp") int count(struct xdp_md *ctx)
{
	__u32 key = 1;
	__u64 *value = bpf_map_lookup_elem(&counts, &key);
	if (value) *value += 1;
	seen++;
	return XDP_DROP;
}
SEC("xdp") int shorten(struct xdp_md *ctx)
{
	return bpf_xdp_adjust_head(ctx, 2) ? XDP_ABORTED : XDP_TX;
}
SEC("xdp") int mark(struct xdp_md *ctx)
{
	__u32 *word;
	if (bpf_xdp_adjust_meta(ctx, -4)) return XDP_ABORTED;
	word = (void *)(long)ctx->data_meta;
	if ((void *)(word + 1) > (void *)(long)ctx->data) return XDP_ABORTED;
	*word = 0x01020304;
	return XDP_PASS;
}
SEC("xdp") int none(struct xdp_md *ctx) { return XDP_DROP; }
SEC("xdp") int stores(struct xdp_md *ctx)
{
	volatile __u32 *word = &seen;
	__u32 turn;
	for (turn = 0; turn < 20; turn++) *word += turn;
	return XDP_DROP;
}
"""

PACKET = udp_frame("ipv4", 64)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("lab") / "own.bpf.c"
    path.write_text(SOURCE)
    return path


@pytest.fixture(
    params=["user", pytest.param("kernel", marks=pytest.mark.needs_kernel)],
)
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_a_run_gives_action_bytes_and_metadata(source: Path, engine: str) -> None:
    with lab.load(f"{source}:shorten", engine) as shorten:
        ran = shorten.run(PACKET)
    assert (ran.action, ran.retval, ran.data) == ("XDP_TX", 3, PACKET.data[2:])
    with lab.load(f"{source}:mark", engine) as mark:
        ran = mark.run(PACKET.data)
        assert (ran.metadata, ran.data) == (b"\4\3\2\1", PACKET.data)
        ran = mark.run(Frame(PACKET.data, metadata=b"abcd"))
    assert ran.metadata == b"\4\3\2\1abcd"


def test_maps_and_variables_live_from_run_to_run(source: Path, engine: str) -> None:
    with lab.load(f"{source}:count", engine, maps={"counts": {1: 5}}) as count:
        before = count.maps["counts"].number(1)
        for _ in range(3):
            count.run(PACKET)
        # Every CPU was given 5, of as many CPUs as the engine has.
        assert count.maps["counts"].number(1) == before + 3
        assert max(count.maps["counts"].per_cpu(1)) == (8).to_bytes(8, "little")
        assert list(count.maps["counts"]) == [key.to_bytes(4, "little") for key in range(4)]
        assert count.read("seen") == 3
        count.write("seen", 41)
        count.run(PACKET)
        assert count.read("seen") == 42


def test_a_hash_is_a_mapping(engine: str) -> None:
    with lab.load(FILTER, engine, maps={"blocked": {0x0900: 7}}) as ports:
        blocked = ports.maps["blocked"]
        assert dict(blocked) == {b"\0\x09": (7).to_bytes(8, "little")}
        ports.run(PACKET)  # to port 9, as the packet has it
        assert blocked.number(b"\0\x09") == 8
        del blocked[b"\0\x09"]
        assert len(blocked) == 0
        assert blocked.number(b"\0\x09") == 0
        with pytest.raises(KeyError):
            blocked[b"\0\x09"]
        with pytest.raises(KeyError):
            del blocked[b"\0\x09"]
        with pytest.raises(UsageError, match="has 3 bytes; the map's have 2"):
            blocked[b"\0\0\0"] = 1


def test_instructions_are_those_that_count_says() -> None:
    packets: list[lab.Packet] = [PACKET, udp_frame("ipv6", 80), PACKET.data[:20]]
    with lab.load(FILTER) as ports:
        counted = ports.count(packets).instructions
        assert tuple(ports.run(packet).instructions for packet in packets) == counted
    assert counted[0] > counted[2]


def test_what_is_wrong_is_said(source: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no program 'nobody'"):
        lab.load(f"{source}:nobody")
    with pytest.raises(UsageError, match="no engine 'moon'"):
        lab.load(f"{source}:none", "moon")
    with pytest.raises(UsageError, match="no map 'other' to fill. It has: counts"):
        lab.load(f"{source}:count", maps={"other": {}})
    wild = tmp_path / "wild.bpf.c"
    wild.write_text(
        SOURCE + 'SEC("xdp") int wild(struct xdp_md *c) '
        "{ return *(__u32 *)((long)c->data + 4000); }\n"
    )
    with lab.load(f"{wild}:wild") as program:
        with pytest.raises(XdplabError, match=r"ended: .*beyond|ended: .*wild"):
            program.run(PACKET)
        with pytest.raises(UsageError, match="60 is no packet"):
            program.run(60)  # type: ignore[arg-type]
        with pytest.raises(FrameError):
            program.run(b"short")


def test_two_programs_are_told_apart_and_read_as_columns(source: Path) -> None:
    """Additions in memory wait for one another, and cost more than none anywhere."""
    measured = lab.measure(f"{source}:stores", f"{source}:none", packet=PACKET, time_s=0.3)
    assert measured.difference is not None
    assert measured.difference.estimate is not None
    assert measured.difference.baseline == "none"
    assert measured.difference.estimate.point > 0
    columns = measured.figures()
    assert {len(column) for column in columns.values()} == {4}
    assert columns["variant"] == ["none", "stores", "stores", "aa-twin"]
    assert columns["frame_bytes"] == [64] * 4
    of_all = lab.samples([measured.document])
    trials = [len(trial.variant_ns) for r in measured.document.results for trial in r.trials]
    assert {len(column) for column in of_all.values()} == {sum(trials)}


def test_a_program_may_be_measured_against_one_of_its_name(source: Path) -> None:
    """A change's before and after: the two objects have the same names throughout."""
    measured = lab.measure(f"{source}:none", f"{source}:none", packet=PACKET, time_s=0.05)
    assert measured.difference is not None
    assert (measured.difference.variant, measured.difference.baseline) == (
        "none",
        "none (baseline)",
    )


def test_who_eats_its_packet_is_not_measured(source: Path) -> None:
    with pytest.raises(
        NotPossibleError, match="shorten was left out: it returned XDP_TX with 62 bytes"
    ):
        lab.measure(f"{source}:shorten", packet=PACKET, time_s=0.05)


@pytest.mark.needs_kernel
def test_it_measures_in_the_kernel(source: Path) -> None:
    measured = lab.measure(f"{source}:count", packet=PACKET, engine="kernel", time_s=0.05)
    assert measured.cost.engine == "kernel"
    assert measured.cost.estimate is not None


def test_ctrl_c_keeps_what_was_measured(source: Path, tmp_path: Path) -> None:
    """Behind the first loads: what is stored by then is what the exception has."""
    path = tmp_path / "s.db"
    asked = threading.Timer(1.5, os.kill, (os.getpid(), signal.SIGINT))
    asked.start()
    with pytest.raises(lab.Interrupted) as caught:
        lab.measure(f"{source}:none", packet=PACKET, time_s=60, store=path, tags=("half",))
    asked.join()
    assert caught.value.measured is not None
    assert caught.value.measured.cost.estimate is not None
    with Store(path) as store:
        (summary,) = store.runs()
    assert summary.run.tags == ("half",)
    assert not summary.run.complete
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_engine_says_why_it_cannot() -> None:
    assert lab.why_not("user") == ""
    assert lab.why_not("kernel") == WHY_NO_KERNEL
