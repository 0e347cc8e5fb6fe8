"""Metadata that programs leave before packets, read in user space."""

from __future__ import annotations

from contextlib import ExitStack
from functools import cache
from importlib import resources
from pathlib import Path

import pytest

from tests.net.sockets import Line, line, packet
from xdplab.errors import TraitsError, UsageError
from xdplab.net import SEALED, Umem, Xsk, XskProgram
from xdplab.program import ObjectSpec, compile_object, read_object

pytestmark = pytest.mark.needs_kernel

# `fixed` leaves eight bytes, `sealed` as many words as byte 18 of the packet says and then a seal,
# `some` seals every other packet; `leaving` sends packets on to v2 with four bytes of metadata,
# `traits_leaving` with traits.
SOURCE = """
#include "xdplab.bpf.h"
#include "seal.bpf.h"
#include "traits.bpf.h"
char _license[] SEC("license") = "GPL";
static long (*const bpf_redirect)(__u32 ifindex, __u64 flags) = (void *)23;
static long (*const bpf_redirect_map)(void *map, __u64 key, __u64 flags) = (void *)51;
static long (*const bpf_xdp_adjust_meta)(struct xdp_md *xdp, int delta) = (void *)54;
struct {
	int (*type)[BPF_MAP_TYPE_XSKMAP];
	int (*key_size)[4];
	int (*value_size)[4];
	int (*max_entries)[2];
} mine SEC(".maps");
struct {
	int (*type)[BPF_MAP_TYPE_ARRAY];
	int (*key_size)[4];
	int (*value_size)[4];
	int (*max_entries)[2];
} counts SEC(".maps");
__u32 seen;
const volatile __u32 out_ifindex;

static __always_inline int leave(struct xdp_md *ctx, int words)
{
	if (bpf_xdp_adjust_meta(ctx, -4 * words))
		return -1;
	__u32 *meta = (void *)(long)ctx->data_meta;
	for (int at = 0; at < 62; at++) {
		if (at >= words || (void *)(meta + at + 1) > (void *)(long)ctx->data)
			break;
		meta[at] = 0x01020300 + at;
	}
	return 0;
}

static __always_inline int here(struct xdp_md *ctx)
{
	return bpf_redirect_map(&mine, ctx->rx_queue_index, XDP_DROP);
}

SEC("xdp") int fixed(struct xdp_md *ctx)
{
	return leave(ctx, 2) ? XDP_ABORTED : here(ctx);
}

SEC("xdp") int sealed(struct xdp_md *ctx)
{
	unsigned char *data = (void *)(long)ctx->data;
	if (data + 19 > (unsigned char *)(long)ctx->data_end)
		return XDP_ABORTED;
	int words = data[18];
	if (words > 62 || leave(ctx, words) || seal_metadata(ctx))
		return XDP_ABORTED;
	return here(ctx);
}

SEC("xdp") int some(struct xdp_md *ctx)
{
	if (seen++ % 2 == 0 && (leave(ctx, 1) || seal_metadata(ctx)))
		return XDP_ABORTED;
	return here(ctx);
}

/* Byte 17 of the packet decides whether there are traits: two, of eight and of two bytes. */
static __always_inline int set_traits(struct xdp_md *ctx, int area_bytes)
{
	unsigned char *data = (void *)(long)ctx->data;
	__u64 wide = 0x1122334455667788;
	__u16 narrow = 0xabcd;

	if (data + 18 > (unsigned char *)(long)ctx->data_end)
		return -1;
	if (data[17] % 2)
		return 0;
	return traits_init(ctx, area_bytes) || traits_set(ctx, 40, &wide, sizeof(wide), 0) ||
		traits_set(ctx, 3, &narrow, sizeof(narrow), 0);
}

SEC("xdp") int traits_fixed(struct xdp_md *ctx)
{
	return set_traits(ctx, 64) ? XDP_ABORTED : here(ctx);
}

SEC("xdp") int traits_leaving(struct xdp_md *ctx)
{
	return set_traits(ctx, 32) ? XDP_ABORTED : bpf_redirect(out_ifindex, 0);
}

SEC("xdp") int leaving(struct xdp_md *ctx)
{
	return leave(ctx, 1) ? XDP_ABORTED : bpf_redirect(out_ifindex, 0);
}
"""


@cache
def compiled(folder: Path) -> ObjectSpec:
    source = folder / "metadata.bpf.c"
    source.write_text(SOURCE)
    with resources.as_file(resources.files("xdplab") / "bpf") as headers:
        return read_object(compile_object(source, include=[headers]), "metadata")


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> ObjectSpec:
    return compiled(tmp_path_factory.mktemp("bpf"))


def behind(pairs: Line, exit_stack: ExitStack, xsk: Xsk, spec: ObjectSpec, name: str) -> None:
    """Put a program of ours before a socket."""
    with pairs.inside(xsk.interface):
        program = XskProgram(xsk.interface, spec=spec, name=name, map="mine")
    exit_stack.callback(program.close)
    program.add(xsk)


def words(count: int) -> bytes:
    return b"".join((0x01020300 + at).to_bytes(4, "little") for at in range(count))


def test_metadata_of_a_fixed_length(spec: ObjectSpec) -> None:
    with line() as pairs, ExitStack() as exit_stack:
        receiver = pairs.open("v0", metadata=8)
        behind(pairs, exit_stack, receiver, spec, "fixed")
        pairs.sender().send([packet(number) for number in range(3)])
        with receiver.receive(timeout_s=5) as batch:
            assert [bytes(one) for one in batch] == [packet(number) for number in range(3)]
            for number in range(3):
                found = batch.metadata(number)
                assert found is not None
                assert found.tobytes() == words(2)


def test_a_seal_tells_each_packets_length(spec: ObjectSpec) -> None:
    # 216 bytes in all is what the headroom takes besides the kernel's own structure.
    counts = [0, 1, 5, 53, 2, 0]
    sent = [packet(0)[:18] + bytes([count]) + packet(0)[19:] for count in counts]
    with line() as pairs, ExitStack() as exit_stack:
        receiver = pairs.open("v0", metadata=SEALED)
        behind(pairs, exit_stack, receiver, spec, "sealed")
        pairs.sender().send(sent)
        with receiver.receive(timeout_s=5) as batch:
            assert [bytes(one) for one in batch] == sent
            for number, count in enumerate(counts):
                found = batch.metadata(number)
                assert found is not None
                assert found.tobytes() == words(count)


@pytest.mark.parametrize("rx_ring", [2, 8])
def test_an_unsealed_packet_never_shows_an_earlier_ones_metadata(
    spec: ObjectSpec, rx_ring: int
) -> None:
    with line() as pairs, ExitStack() as exit_stack:
        # An odd number of frames: each is sealed in one turn and not in another.
        umem = exit_stack.enter_context(Umem(2 * rx_ring - 1))
        receiver = pairs.open("v0", metadata=SEALED, rx_ring=rx_ring, umem=umem)
        behind(pairs, exit_stack, receiver, spec, "some")
        sender = pairs.sender()
        for number in range(40):
            sender.send([packet(number)])
            with receiver.receive(timeout_s=5) as batch:
                assert [bytes(one) for one in batch] == [packet(number)]
                found = batch.metadata(0)
                assert (found is None) == bool(number % 2)
        receiver.close()


@pytest.mark.parametrize("program_mode", ["native", "generic"])
def test_the_packages_program_seals_packets_without_metadata(program_mode: str) -> None:
    with line() as pairs:
        receiver = pairs.attach("v0", metadata=SEALED, program_mode=program_mode)
        pairs.sender().send([packet(1)])
        with receiver.receive(timeout_s=5) as batch:
            found = batch.metadata(0)
            assert found is not None
            assert found.tobytes() == b""
            assert bytes(batch[0]) == packet(1)


def test_metadata_of_an_earlier_program_is_sealed_behind_a_redirect(spec: ObjectSpec) -> None:
    with line() as pairs, ExitStack() as exit_stack:
        receiver = pairs.attach("v3", metadata=SEALED)
        with pairs.inside("v0"):
            first = XskProgram(
                "v0",
                spec=spec,
                name="leaving",
                map="mine",
                constants={"out_ifindex": pairs.ifindex("v2")},
            )
        exit_stack.callback(first.close)
        pairs.sender().send([packet(1)])
        with receiver.receive(timeout_s=5) as batch:
            assert [bytes(one) for one in batch] == [packet(1)]
            found = batch.metadata(0)
            assert found is not None
            assert found.tobytes() == words(1)


TRAITS = {3: b"\xcd\xab", 40: bytes.fromhex("8877665544332211")}


def test_traits_of_a_fixed_area(spec: ObjectSpec) -> None:
    with line() as pairs, ExitStack() as exit_stack:
        receiver = pairs.open("v0", metadata=64)
        behind(pairs, exit_stack, receiver, spec, "traits_fixed")
        pairs.sender().send([packet(0), packet(2)])
        with receiver.receive(timeout_s=5) as batch:
            assert [batch.traits(number) for number in range(2)] == [TRAITS, TRAITS]


def test_traits_of_an_earlier_program_are_sealed_behind_a_redirect(spec: ObjectSpec) -> None:
    with line() as pairs, ExitStack() as exit_stack:
        receiver = pairs.attach("v3", metadata=SEALED)
        with pairs.inside("v0"):
            first = XskProgram(
                "v0",
                spec=spec,
                name="traits_leaving",
                map="mine",
                constants={"out_ifindex": pairs.ifindex("v2")},
            )
        exit_stack.callback(first.close)
        pairs.sender().send([packet(number) for number in (0, 1, 2)])
        with receiver.receive(timeout_s=5) as batch:
            assert [batch.traits(number) for number in range(3)] == [TRAITS, {}, TRAITS]


def test_metadata_that_is_no_traits_is_refused_as_such(spec: ObjectSpec) -> None:
    with line() as pairs, ExitStack() as exit_stack:
        receiver = pairs.open("v0", metadata=8)
        behind(pairs, exit_stack, receiver, spec, "fixed")
        pairs.sender().send([packet(0)])
        with receiver.receive(timeout_s=5) as batch, pytest.raises(TraitsError, match="8 bytes"):
            batch.traits(0)


def test_metadata_is_not_guessed() -> None:
    with line() as pairs:
        receiver = pairs.attach("v0")
        pairs.sender().send([packet(1)])
        with (
            receiver.receive(timeout_s=5) as batch,
            pytest.raises(UsageError, match="does not tell its length: open the socket with"),
        ):
            batch.metadata(0)


def test_a_map_that_is_no_xskmap_is_refused(spec: ObjectSpec) -> None:
    with line() as pairs, pairs.inside("v0"):
        for wrong in ("counts", "nowhere"):
            with pytest.raises(UsageError, match=f"no xskmap named '{wrong}'"):
                XskProgram("v0", spec=spec, name="fixed", map=wrong)


def test_a_queue_beyond_the_map_is_refused(spec: ObjectSpec) -> None:
    with line(queues=3) as pairs, ExitStack() as exit_stack:
        receiver = pairs.open("v0", queue=2)
        with pytest.raises(UsageError, match="queue 2 of v0 .* xskmap has 2 entries"):
            behind(pairs, exit_stack, receiver, spec, "fixed")
