"""What was wrong once, found by running programs of other projects on both engines."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from tests.user.kernel_maps import possible_cpus
from tests.user.programs import EXIT, add, copy, linked, load, mov, object_of, store
from xdplab.errors import NotPossibleError
from xdplab.packets.frame import Frame
from xdplab.program import ObjectSpec, compile_object, read_object
from xdplab.program import insn as isa
from xdplab.program.insn import Insn
from xdplab.user import jit
from xdplab.user.jit import compile_ir
from xdplab.user.link import LinkedProgram, link
from xdplab.user.machine import UserObject
from xdplab.user.options import Mode, Options
from xdplab.user.translate import translate

HEADER = """
typedef unsigned int u32;
#define SEC(name) __attribute__((section(name), used))
#define __uint(name, value) int (*name)[value]
struct ctx { u32 data, data_end; };
static long (*perf_event_output)(void *, void *, unsigned long, void *, unsigned long) = (void *)25;
static long (*ringbuf_output)(void *, void *, unsigned long, unsigned long) = (void *)130;
char license_text[] SEC("license") = "GPL";
"""


def compiled(source: str) -> ObjectSpec:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "regression.bpf.c")
        path.write_text(HEADER + source)
        return read_object(compile_object(path), "regression")


EVENTS = """
struct { __uint(type, 4); __uint(key_size, 4); __uint(value_size, 4); } events SEC(".maps");
SEC("xdp") int send(struct ctx *ctx)
{
    u32 value = 7;
    return perf_event_output(ctx, &events, 0xffffffff, &value, sizeof(value)) ? 1 : 2;
}
"""


def test_a_perf_event_array_without_a_size_has_a_slot_for_each_cpu() -> None:
    with UserObject(compiled(EVENTS), nr_cpus=3) as owner:
        program = owner.program("send")
        assert owner.maps["events"].struct.max_entries == 3
        assert program.run(Frame(bytes(64))).retval == 1
        owner.maps["events"].listen()
        assert program.run(Frame(bytes(64))).retval == 2
        assert [record.data[:4] for record in owner.maps["events"].drain()] == [b"\7\0\0\0"]


RING = """
struct { __uint(type, 27); __uint(max_entries, SIZE); } ring SEC(".maps");
SEC("xdp") int send(struct ctx *ctx)
{
    u32 value = 7;
    return ringbuf_output(&ring, &value, sizeof(value), 0) ? 1 : 2;
}
"""


@pytest.mark.parametrize(
    ("asked_bytes", "given_bytes"), [(1, 4096), (4096, 4096), (4097, 8192), (20480, 32768)]
)
def test_a_ring_buffer_has_pages_by_powers_of_two(asked_bytes: int, given_bytes: int) -> None:
    spec = compiled(RING.replace("SIZE", str(asked_bytes)))
    with UserObject(spec) as owner:
        assert owner.program("send").run(Frame(bytes(64))).retval == 2
        assert owner.maps["ring"].struct.max_entries == given_bytes


@pytest.mark.needs_kernel
def test_sizes_are_those_that_the_kernel_gets() -> None:
    from xdplab.kernel.libbpf import LoadedObject, library
    from xdplab.kernel.testrun import TestRun

    with LoadedObject(compiled(EVENTS)) as loaded:
        # Slots are there for keys below the size: E2BIG tells the first that is not.
        key = possible_cpus().to_bytes(4, "little")
        assert library().bpf_map_delete_elem(loaded.maps["events"], key) == -7
        assert TestRun(loaded.prog_fd("send"), bytes(64)).outcome().retval == 1


PINNED = """
struct { __uint(type, 2); __uint(key_size, 4); __uint(value_size, 4); __uint(max_entries, 1);
         __uint(pinning, 1); } xdplab_pinned SEC(".maps");
static void *(*map_lookup_elem)(void *, void *) = (void *)1;
SEC("xdp_old_name") int look(struct ctx *ctx)
{
    u32 key = 0;
    return map_lookup_elem(&xdplab_pinned, &key) ? 2 : 1;
}
"""


@pytest.mark.needs_kernel
def test_a_map_that_asks_for_it_is_not_pinned_and_old_section_names_are_xdp() -> None:
    from xdplab.kernel.libbpf import LoadedObject
    from xdplab.kernel.testrun import TestRun

    with LoadedObject(compiled(PINNED)) as loaded:
        assert TestRun(loaded.prog_fd("look"), bytes(64)).outcome().retval == 2
        assert not Path("/sys/fs/bpf/xdplab_pinned").exists()


CORE = """
#pragma clang attribute push (__attribute__((preserve_access_index)), apply_to = record)
struct xdp_md { u32 data, data_end, data_meta, ingress_ifindex, rx_queue_index, egress_ifindex; };
struct ethhdr { unsigned char h_dest[6], h_source[6]; unsigned short h_proto; } PACKED;
struct xdp_md___partly { u32 rx_queue_index; };
struct xdp_md___start { u32 data, data_end; };
struct iphdr { unsigned int saddr; };
#pragma clang attribute pop
SEC("xdp") int settled(struct xdp_md *ctx)
{
    struct ethhdr *eth = (void *)(long)ctx->data;
    if ((void *)(eth + 1) > (void *)(long)ctx->data_end)
        return 1;
    return eth->h_proto == 8 ? 2 + ctx->rx_queue_index : 1;
}
SEC("xdp") int start(struct xdp_md___start *ctx) { return ctx->data_end - ctx->data; }
SEC("xdp") int partly(struct xdp_md___partly *ctx) { return ctx->rx_queue_index; }
SEC("xdp") int addresses(struct xdp_md *ctx)
{
    struct iphdr *ip = (void *)(long)ctx->data;
    return (void *)(ip + 1) > (void *)(long)ctx->data_end ? 1 : ip->saddr;
}
""".replace("PACKED", "__attribute__((packed))")


def test_core_relocations_are_done_unless_a_known_structure_is_declared_otherwise() -> None:
    spec = compiled(CORE)
    with UserObject(spec) as owner:
        program = owner.program("settled")
        assert program.run(Frame(bytes(12) + b"\x08\0" + bytes(50))).retval == 2
        assert program.run(Frame(bytes(64))).retval == 1
        assert owner.program("start").run(Frame(bytes(64))).retval == 64
        # As compiled they would read `data`, and an address at the header's start.
        for name, struct in (("partly", "xdp_md___partly"), ("addresses", "iphdr")):
            with pytest.raises(NotPossibleError, match=f"struct {struct} are"):
                owner.program(name)


def test_a_large_program_is_compiled_without_passes_that_take_minutes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spec = compiled(CORE)
    checked = Options(Mode.CHECKED)
    ir = translate(spec, link(spec, "settled"), checked).ir
    optimised = compile_ir(ir, checked)
    monkeypatch.setattr(jit, "_LARGE_CHARACTERS", 100)
    assert len(compile_ir(ir, checked)) != len(optimised)
    with UserObject(spec, checked) as owner:
        frame = Frame(bytes(12) + b"\x08\0" + bytes(50))
        assert owner.program("settled").run(frame).retval == 2


def fetched_from_slot() -> LinkedProgram:
    """Returns 2 where the packet's first byte is 0, else 1: by way of a stack slot and an xchg.

    Verifiers that do not follow a fetched value's precision back to its slot remove `r0 = 1`.
    """
    zero = Insn(isa.ST | isa.DW | isa.MEM, 10, 0, -8, 0)
    return linked(
        [
            *(load(isa.W, 7, 1, 0), load(isa.W, 8, 1, 4), copy(1, 7), add(1, 1)),
            *(Insn(isa.JMP | isa.JLE | isa.X, 1, 8, 2), mov(0, 99), EXIT),
            *(load(isa.B, 1, 7, 0), zero),
            *(Insn(isa.JMP | isa.JNE | isa.K, 1, 0, 1), Insn(isa.JMP | isa.JA, off=1)),
            store(isa.DW, 10, -8, 1),
            *(mov(2, 0), Insn(isa.STX | isa.DW | isa.ATOMIC, 10, 2, -8, isa.XCHG)),
            *(mov(0, 2), Insn(isa.JMP | isa.JEQ | isa.K, 2, 0, 1), mov(0, 1), EXIT),
        ]
    )


@pytest.mark.parametrize("mode", Mode)
def test_a_fetched_value_decides_also_where_a_verifier_would_be_sure(mode: Mode) -> None:
    with UserObject(object_of(), Options(mode)) as owner:
        program = owner.add(fetched_from_slot())
        answers = [program.run(Frame(bytes([first, *range(63)]))).retval for first in (0, 5)]
    assert answers == [2, 1]
