"""Traits in BPF, in the kernel and in user space, against a dict: every answer, every byte.

benchmarks/traits_model.py has the same for as long as one likes.
"""

from __future__ import annotations

import errno
import random
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.conftest import WHY_NO_KERNEL
from tests.traits.operations import (
    CONSTANT_KEYS,
    OPS,
    Compiled,
    Kind,
    Machines,
    Model,
    Op,
    differences,
    machines,
    operations_object,
    random_case,
    run_in_kernel,
)
from xdplab import traits
from xdplab.errors import TraitsError
from xdplab.kernel.libbpf import LoadedObject
from xdplab.packets.frame import MAXIMUM_METADATA_BYTES, Frame
from xdplab.program import ObjectSpec, compiler_version
from xdplab.user.machine import UserObject

pytestmark = pytest.mark.skipif(
    compiler_version() is None, reason="no BPF compiler: neither ziglang nor clang is installed"
)

CASES = 150
"""Of 64 operations each, on three machines: 9,600 operations in about a second."""


@pytest.fixture(scope="module")
def spec() -> ObjectSpec:
    """operations.bpf.c."""
    return operations_object()


@pytest.fixture(scope="module")
def both() -> Iterator[Machines]:
    """The user-space engine in two modes, and the kernel where it may be used."""
    with machines(in_kernel=not WHY_NO_KERNEL) as made:
        yield made


@pytest.mark.parametrize("seed", range(3))
def test_all_do_as_a_dict_does(both: Machines, seed: int) -> None:
    pick = random.Random(seed)
    seen: Counter[int] = Counter()
    for number in range(CASES // 3):
        frame, values, ops = random_case(pick, OPS)
        wrong = list(differences(both, frame, values, ops))
        assert not wrong, f"seed {seed}, case {number}, {len(frame.metadata)} bytes: {wrong[:3]}"
        model = Model(len(frame.metadata), dict(values))
        seen.update(model.perform(op).returned for op in ops)
    # The sequences do meet every answer there is.
    answers = (-errno.EINVAL, -errno.ENOENT, -errno.EBUSY, -errno.ENOSPC, 0, 1, 2, 4, 8)
    assert min(seen[answer] for answer in answers) >= 5
    assert set(seen) == set(answers)


@pytest.mark.needs_kernel
def test_the_kernel_is_among_them(both: Machines) -> None:
    frame = Frame(bytes(64), traits.encode({}, 16))
    assert set(both.perform(frame, [Op(Kind.IS_SET, 1)])) == {"timed", "checked", "kernel"}


@pytest.mark.parametrize("area_bytes", [0, 4, 8, 12])
def test_an_area_without_room_for_a_header_has_nothing_set(both: Machines, area_bytes: int) -> None:
    frame = Frame(bytes(range(64)), b"\xff" * area_bytes)
    ops = [
        Op(kind, key, length, 1, 0, how)
        for kind in Kind
        for key, how in ((7, Compiled.VARIABLE), (9, Compiled.CONSTANT_LENGTH), (32, Compiled(2)))
        for length in (2, 8, 3)
    ]
    for name, run in both.perform(frame, ops).items():
        expected = [Model(area_bytes).perform(op).returned for op in ops]
        assert [answer.returned for answer in run.answers] == expected, name
        assert {bytes(area) for area in run.areas} == {frame.metadata}
        assert run.data == frame.data


def test_a_full_area_takes_no_more_and_loses_nothing(both: Machines) -> None:
    keys = [key for key in range(2, 60, 2) if key != 30][:25]
    values = {key: bytes([key + 1]) * 8 for key in keys}
    area = traits.encode(values)
    assert len(area) == MAXIMUM_METADATA_BYTES
    full = [
        Op(Kind.SET, key, length, 0, 0, how)
        for key in (0, 1, 30, 31, 33, 35, 61, 63)
        for length in traits.VALUE_BYTES
        for how in (Compiled.CONSTANT_LENGTH, Compiled.CONSTANT_KEY)
    ]
    for name, run in both.perform(Frame(bytes(64), area), full).items():
        assert {answer.returned for answer in run.answers} == {-errno.ENOSPC}, name
        assert set(run.areas) == {area}, name


def test_the_last_byte_can_be_used(both: Machines) -> None:
    for length in traits.VALUE_BYTES:
        values = {2: b"ab", 40: b"12345678"}
        frame = Frame(bytes(64), traits.encode(values, -(-(26 + length) // 4) * 4))
        room = len(frame.metadata) - 26 - length
        for key in CONSTANT_KEYS[:-1]:
            ops = [Op(Kind.SET, key, length, 0x0807060504030201, 0, Compiled.CONSTANT_KEY)]
            assert not list(differences(both, frame, values, ops))
        assert room in (0, 2)


def test_any_bytes_for_a_header_stay_within_the_area(both: Machines) -> None:
    """A header of nonsense is answered alike by all, and nothing but the area changes."""
    pick = random.Random(20)
    for _ in range(60):
        area_bytes = 4 * pick.randint(4, MAXIMUM_METADATA_BYTES // 4)
        high = pick.choice((pick.getrandbits(64), pick.getrandbits(64) & pick.getrandbits(64), 0))
        low = pick.choice((pick.getrandbits(64), high, (1 << 64) - 1))
        area = high.to_bytes(8, "little") + low.to_bytes(8, "little")
        frame = Frame(pick.randbytes(64), area + pick.randbytes(area_bytes - 16))
        _, _, ops = random_case(pick, OPS)
        runs = both.perform(frame, ops)
        assert len({tuple(run.answers) for run in runs.values()}) == 1
        assert len({tuple(run.areas) for run in runs.values()}) == 1
        assert {run.data for run in runs.values()} == {frame.data}


def test_what_a_header_tells_of_and_is_not_there_is_an_error(both: Machines) -> None:
    area = traits.encode({5: b"12345678", 60: b"abcd"})[:-4]
    frame = Frame(bytes(64), area)
    with pytest.raises(TraitsError):
        traits.decode(area)
    for how in (Compiled.VARIABLE, Compiled.CONSTANT_LENGTH):
        ops = [
            Op(Kind.GET, 60, 8, 0, 0, how),
            Op(Kind.SET, 60, 4, 0, 0, how),
            Op(Kind.DEL, 60, 0, 0, 0, how),
            Op(Kind.DEL, 5, 0, 0, 0, how),
        ]
        for name, run in both.perform(frame, ops).items():
            assert [answer.returned for answer in run.answers] == [-errno.EINVAL] * 4, name
            assert set(run.areas) == {area}, name


INITIAL = [
    (present, wanted)
    for present in (0, 4, 24, MAXIMUM_METADATA_BYTES)
    for wanted in (0, 12, 15, 16, 18, 20, 64, 216, 220, 256, 1 << 31)
]


def expected_init(wanted: int) -> int:
    if wanted < 16 or wanted % 4:
        return -errno.EINVAL
    # What the kernel's helper answers where the headroom ends.
    return -errno.EINVAL if wanted > MAXIMUM_METADATA_BYTES else 0


@pytest.mark.parametrize(("present", "wanted"), INITIAL)
def test_init_makes_an_empty_area_of_what_is_there(
    spec: ObjectSpec, present: int, wanted: int
) -> None:
    frame = Frame(bytes(range(64)), b"\xff" * present)
    answer = expected_init(wanted)
    with UserObject(spec) as owner:
        owner.write("init_bytes", wanted)
        outcome = owner.program("init_traits").run(frame)
        assert owner.read("init_answer") == answer
        check_initial(outcome.metadata, outcome.data, frame, answer, wanted)


@pytest.mark.needs_kernel
def test_init_in_the_kernel(spec: ObjectSpec) -> None:
    with LoadedObject(spec, ("init_traits",)) as loaded:
        for present, wanted in INITIAL:
            frame = Frame(bytes(range(64)), b"\xff" * present)
            loaded.memory_of("init_bytes").raw = wanted.to_bytes(4, "little")
            found = run_in_kernel(loaded, "init_traits", frame)
            answer = expected_init(wanted)
            assert loaded.read("init_answer") == answer, (present, wanted)
            split = len(found) - len(frame.data)
            check_initial(found[:split], found[split:], frame, answer, wanted)


def check_initial(area: bytes, data: bytes, frame: Frame, answer: int, wanted: int) -> None:
    assert data == frame.data
    if answer:
        assert area == frame.metadata
    else:
        assert len(area) == wanted
        assert traits.decode(area) == {}
