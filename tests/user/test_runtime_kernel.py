"""Helpers here and in the kernel: the same object, the same packet, the same results.

helpers.bpf.c performs a list of calls that the test writes; results, the frame with its metadata,
and the memory that helpers wrote to must be the same after it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from xdplab.kernel.libbpf import LoadedObject
from xdplab.kernel.testrun import TestRun
from xdplab.packets.frame import Frame
from xdplab.program import compile_object, compiler_version, read_object
from xdplab.user.abi import FRAGS, UserFrag
from xdplab.user.buffer import PAGE_BYTES, FrameBuffer, frame_bytes
from xdplab.user.machine import UserObject

pytestmark = pytest.mark.needs_kernel

HEAD, META, TAIL, LOAD, STORE, PULL, LENGTH, LINEAR, METADATA, REDIRECT = range(10)
READ, WRITE, SLICE, SIZE = range(10, 14)
CSUM, STRNCMP, FROM_MEM, SNPRINTF, OUTPUT, QUERY = range(20, 26)

OPS = 12
Op = tuple[int, int, int, int]
Seen = tuple[tuple[int, ...], int, bytes, bytes]


class Twins:
    """The program in both places."""

    def __init__(self, stack: ExitStack) -> None:
        directory = Path(__file__).parent
        headers = Path(__file__).parents[2] / "src" / "xdplab" / "bpf"
        spec = read_object(
            compile_object(directory / "helpers.bpf.c", include=[headers]), "helpers"
        )
        self.user = stack.enter_context(UserObject(spec))
        self.kernel = stack.enter_context(LoadedObject(spec))

    def in_user(self, frame: Frame, ops: bytes, memory: bytes) -> Seen:
        owner = self.user
        owner.memory_of("ops").raw = ops
        owner.memory_of("buffer").raw = memory
        buffer = FrameBuffer(frame)
        frags = (UserFrag * FRAGS).from_address(buffer.buffer.frags)
        for number in range(buffer.buffer.frag_count):
            # A test run's frags are whole pages that may grow.
            frags[number].room_bytes = PAGE_BYTES
        retval, fault = owner.run_once(owner.program("perform_ops").address, buffer)
        assert fault is None
        data, metadata = frame_bytes(owner.frame)
        return (
            struct.unpack(f"<{OPS}q", owner.memory_of("results").raw),
            retval,
            metadata + data,
            owner.memory_of("buffer").raw,
        )

    def in_kernel(self, frame: Frame, ops: bytes, memory: bytes) -> Seen:
        owner = self.kernel
        owner.memory_of("ops").raw = ops
        owner.memory_of("buffer").raw = memory
        meta = len(frame.metadata)
        end = meta + (len(frame.data) if frame.linear_bytes is None else frame.linear_bytes)
        ctx = struct.pack("<6I", meta, end, 0, 0, 0, 0)
        outcome = TestRun(owner.prog_fd("perform_ops"), frame.metadata + frame.data, ctx).outcome()
        return (
            struct.unpack(f"<{OPS}q", owner.memory_of("results").raw),
            outcome.retval,
            outcome.data,
            owner.memory_of("buffer").raw,
        )

    def compare(self, frame: Frame, ops: list[Op]) -> None:
        packed = b"".join(struct.pack("<IiII", *op) for op in ops).ljust(16 * OPS, b"\0")
        memory = bytes((7 * index + 3) % 256 for index in range(512))
        ours = self.in_user(frame, packed, memory)
        theirs = self.in_kernel(frame, packed, memory)
        assert ours[0] == theirs[0]
        assert ours[1] == theirs[1]
        assert ours[2] == theirs[2]
        assert ours[3] == theirs[3]


@pytest.fixture(scope="module")
def twins() -> Iterator[Twins]:
    if compiler_version() is None:
        pytest.skip("no BPF compiler: neither ziglang nor clang is installed")
    with ExitStack() as stack:
        yield Twins(stack)


def frame_of(size: int, metadata: int, linear: int | None) -> Frame:
    data = bytes((index * 31 + index // 251) % 256 for index in range(size))
    return Frame(data, bytes(range(metadata)), None if linear is None else min(linear, size))


frames = st.builds(
    frame_of,
    st.sampled_from([14, 15, 60, 64, 300, 1500, 3500, 4000, 9000]),
    st.sampled_from([0, 0, 0, 4, 12, 64, 216]),
    st.sampled_from([None, None, 14, 64, 128]),
)
small = st.sampled_from([0, 1, 2, 4, 8, 14, 20, 46, 50, 64, 100, 200, 216, 255, 256, 300, 3520])
offsets = st.builds(lambda a, sign: sign * a, small, st.sampled_from([1, -1]))
positions = st.one_of(small, st.sampled_from([1499, 3999, 8999, 9000, 65535, 65536, 1 << 30]))
on_frame = st.one_of(
    st.tuples(st.sampled_from([HEAD, META, TAIL]), offsets, st.just(0), st.just(0)),
    st.tuples(st.sampled_from([LOAD, STORE]), positions, st.integers(0, 255), st.just(0)),
    st.tuples(st.just(PULL), positions, st.just(0), st.just(0)),
    st.tuples(st.sampled_from([LENGTH, LINEAR, METADATA]), st.just(0), st.just(0), st.just(0)),
    st.tuples(st.just(REDIRECT), st.just(1), st.integers(0, 1), st.just(0)),
    st.tuples(st.sampled_from([READ, WRITE, SLICE, SIZE]), positions, positions, small),
)
words = st.integers(-(1 << 31), (1 << 31) - 1)
unsigned = st.integers(0, (1 << 32) - 1)
on_memory = st.one_of(
    st.tuples(st.sampled_from([CSUM, STRNCMP, SNPRINTF]), words, unsigned, unsigned),
    st.tuples(st.just(FROM_MEM), words, st.sampled_from([0, 1, 495, 496, 497, 600]), st.just(0)),
    st.tuples(st.just(OUTPUT), words, st.sampled_from([0, 1, 2, 4]), st.just(0)),
    st.tuples(st.just(QUERY), st.sampled_from([0, 1, 2, 3, 4]), st.just(0), st.just(0)),
)


@settings(max_examples=300, database=None)
@given(frames, st.lists(on_frame, min_size=1, max_size=OPS))
@example(frame_of(64, 0, None), [(HEAD, -8, 0, 0), (META, -4, 0, 0), (HEAD, 14, 0, 0)])
def test_helpers_on_frames(twins: Twins, frame: Frame, ops: list[Op]) -> None:
    twins.compare(frame, ops)


@settings(max_examples=200, database=None)
@given(st.lists(on_memory, min_size=1, max_size=OPS))
@example([(CSUM, 0, 0, 65536)])
def test_helpers_on_memory(twins: Twins, ops: list[Op]) -> None:
    twins.compare(frame_of(64, 0, None), ops)
