"""examples/traits_delay.bpf.c: compiled as a user would, its two ends run on both engines."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.traits.operations import run_in_kernel
from tests.user.test_objects import kernel_entries
from xdplab import traits
from xdplab.kernel.libbpf import LoadedObject
from xdplab.packets.frame import Frame
from xdplab.program import ObjectSpec, compile_object, compiler_version, read_object
from xdplab.user.machine import UserObject

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "traits_delay.bpf.c"
AREA_BYTES = 32
BARE = Frame(bytes(range(64)))

pytestmark = pytest.mark.skipif(
    compiler_version() is None, reason="no BPF compiler: neither ziglang nor clang is installed"
)


@pytest.fixture(scope="module")
def spec() -> ObjectSpec:
    return read_object(compile_object(EXAMPLE, include=[traits.include_folder()]), "example")


def counted(entries: Iterable[tuple[bytes, bytes]]) -> dict[int, int]:
    """Slots of the histogram that are not empty."""
    numbers = {
        int.from_bytes(slot, "little"): int.from_bytes(count, "little") for slot, count in entries
    }
    return {slot: count for slot, count in numbers.items() if count}


def check_stamped(area: bytes, before_ns: int) -> None:
    assert len(area) == AREA_BYTES
    values = traits.decode(area)
    assert set(values) == {1, 2}
    assert before_ns <= int.from_bytes(values[1], "little") <= time.monotonic_ns()
    # The interface of a test run is lo.
    assert values[2] == (1).to_bytes(4, "little")


def check_histogram(found: dict[int, int], before_ns: int) -> None:
    assert found.pop(0) == 1
    ((slot, count),) = found.items()
    assert count == 1
    assert 2 ** (slot - 1) <= time.monotonic_ns() - before_ns


def test_in_user_space(spec: ObjectSpec) -> None:
    before_ns = time.monotonic_ns()
    with UserObject(spec) as owner:
        stamped = owner.program("stamp").run(BARE)
        check_stamped(stamped.metadata, before_ns)
        owner.program("delay").run(Frame(stamped.data, stamped.metadata))
        owner.program("delay").run(BARE)
        check_histogram(counted(owner.maps["delays"].items()), before_ns)


@pytest.mark.needs_kernel
def test_in_the_kernel(spec: ObjectSpec) -> None:
    before_ns = time.monotonic_ns()
    with LoadedObject(spec) as loaded:
        stamped = run_in_kernel(loaded, "stamp", BARE)
        area, data = stamped[:AREA_BYTES], stamped[AREA_BYTES:]
        assert data == BARE.data
        check_stamped(area, before_ns)
        run_in_kernel(loaded, "delay", Frame(data, area))
        run_in_kernel(loaded, "delay", BARE)
        entries = kernel_entries(loaded.maps["delays"], 4, 8)
        check_histogram(counted(entries), before_ns)
