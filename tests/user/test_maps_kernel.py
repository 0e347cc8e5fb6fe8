"""The same commands on a map here and on one in the kernel: same answers, errors and contents."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.user.kernel_maps import KernelMap, possible_cpus
from xdplab.program import MapSpec
from xdplab.user.maps import UserMap

pytestmark = pytest.mark.needs_kernel

NO_PREALLOC, RDONLY, WRONLY, ZERO_SEED = 1 << 0, 1 << 3, 1 << 4, 1 << 6

Answer = tuple[str, object]


def answer(command: Callable[..., object], *arguments: object) -> Answer:
    """What a command gave, or the errno that it ended with."""
    try:
        return "gave", command(*arguments)
    except OSError as error:
        return "errno", error.errno


def lookup_user(table: UserMap, key: bytes) -> bytes | None:
    if not table.is_percpu:
        return table.lookup(key)
    values = table.lookup_percpu(key)
    return None if values is None else b"".join(values)


def spec_of(
    type: int, key: int, value: int, max_entries: int, flags: int = 0, extra: int = 0
) -> MapSpec:
    return MapSpec("m", type, str(type), key, value, max_entries, flags, extra=extra)


@dataclass(frozen=True)
class Pair:
    """One map here and its like in the kernel."""

    user: UserMap
    kernel: KernelMap

    def update(self, key: bytes, value: bytes, flags: int) -> None:
        ours = answer(self.user.update, key, value, flags)
        assert ours == answer(self.kernel.update, key, value, flags)

    def delete(self, key: bytes) -> None:
        assert answer(self.user.delete, key) == answer(self.kernel.delete, key)

    def lookup(self, key: bytes) -> None:
        assert answer(lookup_user, self.user, key) == answer(self.kernel.lookup, key)

    def compare(self, *, ordered: bool) -> None:
        if self.user.spec.flags & WRONLY:
            assert answer(list, self.user.keys()) == answer(list, self.kernel.keys())
            return
        ours, theirs = list(self.user.keys()), list(self.kernel.keys())
        assert (ours if ordered else sorted(ours)) == (theirs if ordered else sorted(theirs))
        for key in theirs:
            self.lookup(key)


KEYED = {
    "hash": spec_of(1, 4, 8, 5),
    "hash-zero-seed": spec_of(1, 6, 3, 7, ZERO_SEED),
    "hash-long-key": spec_of(1, 29, 12, 5, ZERO_SEED),
    "hash-words": spec_of(1, 16, 4, 3, ZERO_SEED | NO_PREALLOC),
    "hash-no-prealloc": spec_of(1, 3, 20, 4, NO_PREALLOC),
    "hash-read-only": spec_of(1, 4, 8, 5, RDONLY),
    "array-write-only": spec_of(2, 4, 8, 5, WRONLY),
    "array": spec_of(2, 4, 8, 5),
    "array-odd": spec_of(2, 4, 3, 1),
    "percpu-hash": spec_of(5, 4, 12, 4),
    "percpu-array": spec_of(6, 4, 8, 3),
    "lpm-ipv4": spec_of(11, 8, 8, 6, NO_PREALLOC),
    "lpm-one-byte": spec_of(11, 5, 4, 4, NO_PREALLOC),
    "lpm-ipv6": spec_of(11, 20, 4, 9, NO_PREALLOC),
    "devmap-hash": spec_of(25, 4, 4, 3),
    "devmap": spec_of(14, 4, 4, 4),
    "devmap-prog": spec_of(14, 4, 8, 4),
    "cpumap": spec_of(16, 4, 4, 3),
}


def keys_of(name: str, spec: MapSpec) -> st.SearchStrategy[bytes]:
    if name.startswith("lpm"):
        bits = 8 * (spec.key_size - 4)
        return st.builds(
            lambda prefix, byte, rest: (
                prefix.to_bytes(4, "little") + (byte + rest).ljust(spec.key_size - 4, b"\xaa")
            ),
            st.integers(0, bits + 1),
            st.sampled_from([b"\x0a", b"\x0b", b"\x8a"]),
            st.sampled_from([b"", b"\x01"]) if bits > 8 else st.just(b""),
        )
    return st.integers(0, 8).map(lambda number: number.to_bytes(spec.key_size, "little"))


def values_of(name: str, spec: MapSpec) -> st.SearchStrategy[bytes]:
    if name.startswith("devmap"):
        # lo is the one device that every namespace has.
        return st.sampled_from([0, 1]).map(lambda i: i.to_bytes(spec.value_size, "little"))
    if name == "cpumap":
        return st.sampled_from([0, 1, 192, 16385]).map(lambda size: size.to_bytes(4, "little"))
    return st.binary(min_size=spec.value_size, max_size=spec.value_size)


@pytest.mark.parametrize("name", KEYED)
def test_random_commands_do_the_same(name: str) -> None:
    spec = KEYED[name]
    keys, values = keys_of(name, spec), values_of(name, spec)
    command = st.one_of(
        st.tuples(st.just("update"), keys, values, st.sampled_from([0, 0, 0, 1, 2, 3, 8])),
        st.tuples(st.just("delete"), keys),
        st.tuples(st.just("lookup"), keys),
    )

    @settings(max_examples=25, database=None)
    @given(st.lists(command, max_size=40))
    def run(commands: list[tuple[str, ...]]) -> None:
        with (
            UserMap(spec, nr_cpus=possible_cpus()) as user,
            KernelMap(spec) as kernel,
        ):
            pair = Pair(user, kernel)
            for kind, *arguments in commands:
                getattr(pair, kind)(*arguments)
            is_hash = spec.type in (1, 5)
            pair.compare(ordered=not is_hash or bool(spec.flags & ZERO_SEED))

    run()


@pytest.mark.parametrize("spec", [spec_of(22, 0, 4, 3), spec_of(23, 0, 5, 1)], ids=str)
def test_queues_do_the_same(spec: MapSpec) -> None:
    values = st.binary(min_size=spec.value_size, max_size=spec.value_size)
    command = st.one_of(
        st.tuples(st.just("push"), values, st.sampled_from([0, 0, 2, 1, 3])),
        st.tuples(st.sampled_from(["pop", "peek"])),
    )

    @settings(max_examples=50, database=None)
    @given(st.lists(command, max_size=30))
    def run(commands: list[tuple[object, ...]]) -> None:
        with UserMap(spec) as user, KernelMap(spec) as kernel:
            for name, *arguments in commands:
                ours, theirs = getattr(user, str(name)), getattr(kernel, str(name))
                assert answer(ours, *arguments) == answer(theirs, *arguments)

    run()


@pytest.mark.parametrize(("size", "extra"), [(4, 0), (7, 3), (16, 1)])
@settings(max_examples=20, database=None)
@given(st.data())
def test_bloom_filters_have_the_same_false_positives(
    size: int, extra: int, data: st.DataObject
) -> None:
    spec = spec_of(30, 0, size, 10, ZERO_SEED, extra)
    value = st.binary(min_size=size, max_size=size)
    with UserMap(spec) as user, KernelMap(spec) as kernel:
        for pushed in data.draw(st.lists(value, max_size=20)):
            assert answer(user.push, pushed) == answer(kernel.push, pushed)
            assert user.might_contain(pushed)
        for asked in data.draw(st.lists(value, min_size=20, max_size=40)):
            assert user.might_contain(asked) == kernel.might_contain(asked)


TYPES = (1, 2, 3, 4, 5, 6, 9, 10, 11, 14, 16, 17, 22, 23, 25, 27, 30)


@settings(max_examples=400, database=None)
@given(
    st.sampled_from(TYPES),
    st.sampled_from([0, 1, 4, 5, 8, 40, 260, 261]),
    st.sampled_from([0, 1, 4, 8, 100]),
    st.sampled_from([0, 1, 3, 4096, 12288]),
    st.sampled_from(
        [0, 0, 0, 1, 2, 384, 1 << 3, 1 << 6, 1 << 7, 1 << 10, 1 << 11, 1 << 12, 1 << 30]
    ),
    st.sampled_from([0, 0, 5, 16]),
)
def test_what_the_kernel_refuses_to_create_is_refused(
    type: int, key: int, value: int, max_entries: int, flags: int, extra: int
) -> None:
    if type == 16:
        # A cpumap's limit is the kernel's NR_CPUS.
        max_entries = min(max_entries, 3)
    spec = spec_of(type, key, value, max_entries, flags, extra)
    try:
        KernelMap(spec).close()
        theirs = None
    except OSError as error:
        theirs = error.errno
    try:
        UserMap(spec).close()
        ours = None
    except OSError as error:
        ours = error.errno
    assert ours == theirs
