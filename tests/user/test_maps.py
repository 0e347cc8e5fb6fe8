"""Maps by example; that they do as the kernel's do is test_maps_kernel.py's."""

from __future__ import annotations

import errno
from collections.abc import Callable

import pytest

from xdplab.program import MapSpec
from xdplab.user.maps import EXIST, NOEXIST, UserMap

HASH, ARRAY, PERCPU_HASH, PERCPU_ARRAY, LRU_HASH = 1, 2, 5, 6, 9


def spec(type: int, max_entries: int, *, key: int = 4, value: int = 8, flags: int = 0) -> MapSpec:
    return MapSpec("m", type, str(type), key, value, max_entries, flags)


def word(number: int, size: int = 4) -> bytes:
    return number.to_bytes(size, "little")


def refusal(command: Callable[..., None], *arguments: object) -> int | None:
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
