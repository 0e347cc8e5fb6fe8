"""Maps by example; that they do as the kernel's do is test_maps_kernel.py's."""

from __future__ import annotations

import ctypes
import errno
import sys
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xdplab.program import MapSpec
from xdplab.user.maps import EXIST, NOEXIST, UserMap

HASH, ARRAY, PERCPU_HASH, PERCPU_ARRAY, LRU_HASH = 1, 2, 5, 6, 9


def spec(type: int, max_entries: int, *, key: int = 4, value: int = 8, flags: int = 0) -> MapSpec:
    return MapSpec("m", type, str(type), key, value, max_entries, flags)


def word(number: int, size: int = 4) -> bytes:
    return number.to_bytes(size, "little")


def refusal(command: Callable[..., object], *arguments: object) -> int | None:
    """The errno that a command ends with, None where it is done."""
    try:
        command(*arguments)
    except OSError as error:
        return error.errno
    return None


def test_array_starts_as_zeros_and_keeps_what_is_written() -> None:
    with UserMap(spec(ARRAY, 3, value=5)) as array:
        assert list(array.items()) == [(word(i), bytes(5)) for i in range(3)]
        array.update(word(2), b"abcde")
        assert array.lookup(word(2)) == b"abcde"
        assert array.lookup(word(3)) is None
        assert refusal(array.update, word(3), b"abcde") == errno.E2BIG


def test_hash_refuses_as_flags_and_room_say() -> None:
    with UserMap(spec(HASH, 2)) as table:
        table.update(word(1), word(10, 8), NOEXIST)
        assert refusal(table.update, word(1), word(11, 8), NOEXIST) == errno.EEXIST
        assert refusal(table.update, word(2), word(11, 8), EXIST) == errno.ENOENT
        table.update(word(2), word(20, 8))
        assert refusal(table.update, word(3), word(30, 8)) == errno.E2BIG
        table.delete(word(1))
        table.update(word(3), word(30, 8))
        assert dict(table.items()) == {word(2): word(20, 8), word(3): word(30, 8)}


@pytest.mark.parametrize("type", [PERCPU_ARRAY, PERCPU_HASH])
def test_percpu_maps_keep_a_value_for_each_cpu(type: int) -> None:
    with UserMap(spec(type, 2, value=4), nr_cpus=3) as counters:
        counters.update(word(1), [word(7), word(8), word(9)])
        assert counters.lookup_percpu(word(1)) == (word(7), word(8), word(9))
        assert counters.lookup(word(1), cpu=2) == word(9)


def test_lru_makes_room_and_spares_what_was_looked_up_by_programs() -> None:
    with UserMap(spec(LRU_HASH, 4)) as table:
        for number in range(10):
            table.update(word(number), word(number, 8))
        assert sorted(key for key, _ in table.items()) == [word(n) for n in range(6, 10)]


def test_values_lie_where_the_map_says() -> None:
    for number in (HASH, ARRAY, PERCPU_HASH, PERCPU_ARRAY, LRU_HASH):
        with UserMap(spec(number, 5, value=12), nr_cpus=2) as table:
            struct = table.struct
            assert struct.values % 8 == 0
            assert struct.values_bytes >= 5 * 12


def test_maps_of_maps_hold_maps_and_tell_their_ids() -> None:
    for kind in (12, 13):
        with UserMap(spec(kind, 2, value=4)) as outer, UserMap(spec(ARRAY, 1)) as inner:
            assert outer.lookup(word(1)) is None
            assert refusal(outer.update, word(1), word(1)) == errno.EBADF
            outer.set_map(word(1), inner)
            assert outer.inner(word(1)) is inner
            assert outer.lookup(word(1)) == word(inner.struct.id)
            outer.delete(word(1))
            assert outer.inner(word(1)) is None
            assert outer.lookup(word(1)) is None
            assert refusal(outer.delete, word(1)) == errno.ENOENT


def test_prog_array_has_addresses_where_translations_look_for_them() -> None:
    with UserMap(spec(3, 4, value=4)) as programs:
        programs.set_program(2, 0x1234567890)
        assert programs.struct.value_stride == 8
        slots = (ctypes.c_uint64 * 4).from_address(programs.struct.values)
        assert list(slots) == [0, 0, 0x1234567890, 0]
        programs.delete(word(2))
        assert list(slots) == [0, 0, 0, 0]


def test_queue_is_first_in_first_out_and_stack_last_in() -> None:
    for kind, wanted in ((22, [1, 2, 3]), (23, [3, 2, 1])):
        with UserMap(spec(kind, 3, key=0, value=4)) as table:
            for number in (1, 2, 3):
                table.push(word(number))
            assert refusal(table.push, word(4)) == errno.E2BIG
            assert table.peek() == word(wanted[0])
            assert [table.pop() for _ in range(4)] == [*(word(n) for n in wanted), None]


commands = st.lists(
    st.tuples(st.sampled_from(["update", "update", "delete"]), st.integers(0, 40)), max_size=120
)


@given(commands)
def test_hash_is_a_dictionary(steps: list[tuple[str, int]]) -> None:
    known: dict[bytes, bytes] = {}
    with UserMap(spec(HASH, 64, key=3)) as table:
        for turn, (step, number) in enumerate(steps):
            key = word(number, 3)
            if step == "update":
                table.update(key, word(turn, 8))
                known[key] = word(turn, 8)
            else:
                wanted = None if known.pop(key, None) else errno.ENOENT
                assert refusal(table.delete, key) == wanted
            assert table.lookup(key) == known.get(key)
        assert dict(table.items()) == known


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["update", "update", "delete"]),
            st.binary(min_size=2, max_size=2),
            st.integers(0, 16),
        ),
        max_size=60,
    ),
    st.lists(st.binary(min_size=2, max_size=2), min_size=1, max_size=20),
)
def test_lpm_trie_finds_the_longest_prefix(
    steps: list[tuple[str, bytes, int]], asked: list[bytes]
) -> None:
    known: dict[str, bytes] = {}
    with UserMap(spec(11, 100, key=6, value=8, flags=1)) as trie:
        for turn, (step, data, bits) in enumerate(steps):
            prefix = f"{int.from_bytes(data, 'big'):016b}"[:bits]
            if step == "update":
                trie.update(word(bits) + data, word(turn, 8))
                known[prefix] = word(turn, 8)
            else:
                wanted = None if known.pop(prefix, None) else errno.ENOENT
                assert refusal(trie.delete, word(bits) + data) == wanted
        for data in asked:
            text = f"{int.from_bytes(data, 'big'):016b}"
            fitting = [prefix for prefix in known if text.startswith(prefix)]
            best = known[max(fitting, key=len)] if fitting else None
            assert trie.lookup(word(16) + data) == best
        assert len(list(trie.keys())) == len(known)


def test_maps_that_cannot_be_are_refused() -> None:
    for number, wanted in ((99, errno.EINVAL), (HASH, errno.EINVAL)):
        assert refusal(UserMap, spec(number, 0)) == wanted
    assert refusal(UserMap, spec(PERCPU_ARRAY, 1, value=32776)) == errno.E2BIG


def test_a_closed_map_gives_its_memory_back_and_forgets_its_inner_maps() -> None:
    inner = UserMap(spec(ARRAY, 1))
    outer = UserMap(spec(12, 1, value=4))
    outer.set_map(word(0), inner)
    outer.close()
    outer.close()
    assert outer.address == 0
    assert sys.getrefcount(inner) == 2
