"""Rings, memory and seals by themselves: no kernel takes part."""

from __future__ import annotations

import os
from collections import deque

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xdplab.errors import NotPossibleError, UsageError
from xdplab.net import SEALED, Umem
from xdplab.net.xsk.fence import compiled_fence
from xdplab.net.xsk.metadata import check_metadata, sealed_length
from xdplab.net.xsk.opening import check_ring
from xdplab.net.xsk.rings import ConsumerRing, MmapOffsets, ProducerRing, RingOffsets

_OFFSETS = RingOffsets(producer=0, consumer=64, desc=256, flags=128)


def both_sides(entries: int, counter: int) -> tuple[ProducerRing, ConsumerRing]:
    """Two views of one ring, whose counters have come to `counter`."""
    fd = os.memfd_create("ring")
    try:
        os.ftruncate(fd, 4096 + 8 * entries)
        os.pwrite(fd, counter.to_bytes(4, "little"), _OFFSETS.producer)
        os.pwrite(fd, counter.to_bytes(4, "little"), _OFFSETS.consumer)
        return (
            ProducerRing(fd, 0, _OFFSETS, entries, np.uint64),
            ConsumerRing(fd, 0, _OFFSETS, entries, np.uint64),
        )
    finally:
        os.close(fd)


@given(
    entries=st.sampled_from([1, 2, 8, 64]),
    counter=st.sampled_from([0, 1, 63, 2**32 - 1, 2**32 - 65, 2**31]),
    steps=st.lists(st.tuples(st.booleans(), st.integers(0, 70)), max_size=40),
)
def test_a_ring_is_a_queue(entries: int, counter: int, steps: list[tuple[bool, int]]) -> None:
    producer, consumer = both_sides(entries, counter)
    model: deque[int] = deque()
    following = 0
    for puts, count in steps:
        if puts:
            some = min(count, producer.free)
            producer.put(np.arange(following, following + some, dtype=np.uint64))
            model.extend(range(following, following + some))
            following += some
        else:
            some = min(count, consumer.available())
            expected = [model.popleft() for _ in range(some)]
            assert consumer.peek(some).tolist() == expected
            assert consumer.take(some).tolist() == expected
        assert consumer.available() == producer.pending == len(model)
        assert producer.free == entries - len(model)
    assert producer.close()
    assert consumer.close()


def test_what_was_taken_is_a_copy() -> None:
    producer, consumer = both_sides(4, 0)
    producer.put(np.arange(4, dtype=np.uint64))
    taken = consumer.take(4)
    producer.put(np.arange(4, 8, dtype=np.uint64))
    assert taken.tolist() == [0, 1, 2, 3]


def test_a_ring_that_is_still_viewed_says_so_when_it_closes() -> None:
    producer, consumer = both_sides(4, 0)
    view = producer.array[1:]
    assert not producer.close()
    assert consumer.close()
    assert len(view) == 3


def test_offsets_are_read_in_the_kernels_order() -> None:
    raw = np.arange(16, dtype=np.uint64).tobytes()
    offsets = MmapOffsets.parse(raw)
    assert offsets.rx == RingOffsets(producer=0, consumer=1, desc=2, flags=3)
    assert offsets.completion == (12, 13, 14, 15)


def test_a_barrier_can_be_made_for_this_processor() -> None:
    fence = compiled_fence()
    assert fence() is None
    assert compiled_fence() is fence


# --- memory


@given(
    takes=st.lists(st.integers(0, 12), max_size=20),
    chunk_bytes=st.sampled_from([2048, 4096]),
    inside=st.integers(0, 2047),
)
def test_a_chunk_belongs_to_one_at_a_time(takes: list[int], chunk_bytes: int, inside: int) -> None:
    with Umem(10, chunk_bytes=chunk_bytes) as umem:
        held: list[int] = []
        for count in takes:
            taken = umem.take(count).tolist()
            assert len(taken) == min(count, 10 - len(held))
            held += taken
            assert len(set(held)) == len(held)
            assert all(at % chunk_bytes == 0 and at < umem.length_bytes for at in held)
            if count % 2 and held:
                back, held = held[:3], held[3:]
                # Any address in a chunk stands for it.
                umem.give(np.array(back, np.uint64) + np.uint64(inside))
            assert umem.free == 10 - len(held)


def test_rows_are_the_memory_from_each_address_on() -> None:
    with Umem(2) as umem:
        umem.data[:] = np.arange(4096) % 251
        addresses = np.array([0, 7, 2048, 4095], np.uint64)
        rows = umem.rows(100)[addresses]
        for address, row in zip(addresses.tolist(), rows, strict=True):
            expected = umem.data[address : address + 100]
            assert row[: len(expected)].tolist() == expected.tolist()


@pytest.mark.parametrize("chunk_bytes", [0, 1024, 2049, 3000, 8192, -2048])
def test_chunks_that_the_kernel_would_refuse(chunk_bytes: int) -> None:
    with pytest.raises(UsageError, match=f"chunks of {chunk_bytes} bytes .* powers of two"):
        Umem(16, chunk_bytes=chunk_bytes)


@pytest.mark.parametrize("headroom_bytes", [-1, 1345, 2048])
def test_headrooms_that_the_kernel_would_refuse(headroom_bytes: int) -> None:
    with pytest.raises(UsageError, match="0 to 1344"):
        Umem(16, headroom_bytes=headroom_bytes)


def test_a_umem_has_a_frame() -> None:
    with pytest.raises(UsageError, match="0 frames"):
        Umem(0)


@pytest.mark.parametrize("frames", [1 << 40, 1 << 60])
def test_more_memory_than_there_is(frames: int) -> None:
    with pytest.raises(NotPossibleError, match="not so much memory"):
        Umem(frames)


@pytest.mark.parametrize("entries", [-1, 3, 1000, 1 << 21])
def test_rings_that_the_kernel_would_refuse(entries: int) -> None:
    with pytest.raises(UsageError, match=f"ring of {entries} entries .*rx_ring.* power of two"):
        check_ring("rx_ring", entries)


# --- metadata


@pytest.mark.parametrize("metadata", [None, SEALED, 4, 8, 252])
def test_metadata_that_there_can_be(metadata: object) -> None:
    check_metadata(metadata)


@pytest.mark.parametrize("metadata", [0, -4, 3, 256, "fixed", 4.0])
def test_metadata_that_there_cannot_be(metadata: object) -> None:
    with pytest.raises(UsageError, match="multiple of 4 up to 252"):
        check_metadata(metadata)


@given(st.integers(0, 2**32 - 1))
def test_only_a_seal_is_a_seal(seal: int) -> None:
    length = sealed_length(seal)
    if length is None:
        assert seal >> 16 != 0x5844 or seal & 0xFFFF > 248 or seal % 4
    else:
        assert seal == 0x5844 << 16 | length


def test_lengths_of_seals() -> None:
    assert [sealed_length(0x58440000 | length) for length in (0, 4, 248)] == [0, 4, 248]
    assert [sealed_length(0x58440000 | length) for length in (2, 252, 65532)] == [None] * 3
    assert sealed_length(0) is None
