"""Compiled objects: the laboratory's own and one of maps and callbacks, on random packets."""

from __future__ import annotations

import ctypes
import random
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.user.sources import SOURCE
from xdplab.packets.frame import Frame, udp_frame
from xdplab.program import ObjectSpec, compile_object, read_object
from xdplab.program.shipped import shipped_object
from xdplab.user.interpreter import Interpreter
from xdplab.user.link import link
from xdplab.user.machine import UserObject
from xdplab.user.options import Mode, Options

SHIPPED = ("adjust_head", "packet_access", "calibrate")
State = tuple[dict[str, int | float | bytes], dict[str, dict[bytes, bytes]]]
Step = tuple[int, bytes]


@cache
def made_object() -> ObjectSpec:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "made.bpf.c")
        source.write_text(SOURCE)
        return read_object(compile_object(source), "made")


def random_frame(pick: random.Random, maximum: int = 1500) -> Frame:
    """Something that programs look into: mostly real headers, sometimes none."""
    if pick.random() < 0.3:
        return Frame(pick.randbytes(pick.choice((14, 15, 33, 34, 60, 64, 200, maximum))))
    kind = pick.choice(("ipv4", "ipv6", "vlan", "qinq"))
    data = bytearray(_udp(kind, pick.choice((70, 80, 128, 513))))
    for _ in range(pick.choice((0, 0, 1, 5))):
        data[pick.randrange(len(data))] = pick.randrange(256)
    cut = pick.choice((len(data), len(data), pick.randrange(14, len(data))))
    return Frame(bytes(data[:cut]))


@cache
def _udp(kind: str, size: int) -> bytes:
    return udp_frame(kind, size).data


def plan(spec: ObjectSpec, seed: int, count: int) -> list[tuple[str, Frame, dict[str, int]]]:
    """Programs to run, each with a frame and variables to set before."""
    pick = random.Random(seed)
    # Those of adjust_head differ by a number alone, and compiling thirty takes a while.
    names = [name for name in spec.programs if "constant" not in name or "_20" in name]
    steps: list[tuple[str, Frame, dict[str, int]]] = []
    for _ in range(count):
        settings = {"size": pick.choice((0, 1, 6, 14, 40, 128, 210, 300))}
        known = {name: value for name, value in settings.items() if name in spec.globals}
        name = pick.choice(names)
        # A frame of more than a page has frags, which programs must say that they can take.
        has_frags = spec.programs[name].section.endswith(".frags") and pick.random() < 0.2
        frame = Frame(pick.randbytes(pick.choice((3520, 3521, 5000, 9000)))) if has_frags else None
        steps.append((name, frame or random_frame(pick), known))
    return steps


def is_written(spec: ObjectSpec, name: str) -> bool:
    return spec.globals[name].section in (".data", ".bss")


def run_user(
    spec: ObjectSpec, steps: list[tuple[str, Frame, dict[str, int]]], mode: Mode | None
) -> tuple[list[Step], State]:
    """Every step in one object; by the interpreter where `mode` is None."""
    with UserObject(spec, Options(mode or Mode.TIMED)) as owner:
        interpreter = Interpreter(owner)
        found = []
        for name, frame, settings in steps:
            for variable, value in settings.items():
                owner.write(variable, value)
            if mode is None:
                owner.program(name)
                outcome = interpreter.run(link(spec, name), frame)
            else:
                outcome = owner.program(name).run(frame)
            assert outcome.fault is None
            found.append((outcome.retval, outcome.data))
        variables = {name: owner.read(name) for name in spec.globals if is_written(spec, name)}
        maps = {
            name: dict(one.items()) for name, one in owner.maps.items() if one.spec.type in (1, 2)
        }
        return found, (variables, maps)


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_objects_do_the_same_in_every_mode(name: str) -> None:
    spec = shipped_object(name)
    steps = plan(spec, 1, 150 if name != "calibrate" else 3)
    expected = run_user(spec, steps, None)
    for mode in Mode:
        assert run_user(spec, steps, mode) == expected, mode


def test_maps_callbacks_and_calls_do_the_same_in_every_mode() -> None:
    spec = made_object()
    steps = plan(spec, 2, 300)
    expected = run_user(spec, steps, None)
    for mode in Mode:
        assert run_user(spec, steps, mode) == expected, mode


def run_kernel(
    spec: ObjectSpec, steps: list[tuple[str, Frame, dict[str, int]]]
) -> tuple[list[Step], State]:
    from xdplab.kernel.libbpf import LoadedObject
    from xdplab.kernel.testrun import TestRun

    programs = sorted({name for name, _, _ in steps} | set(spec.programs))
    found = []
    with LoadedObject(spec, programs) as loaded:
        for name, frame, settings in steps:
            for variable, value in settings.items():
                loaded.memory_of(variable).raw = spec.globals[variable].encode(value)
            outcome = TestRun(loaded.prog_fd(name), frame.data).outcome()
            found.append((outcome.retval, outcome.data))
        variables = {name: loaded.read(name) for name in spec.globals if is_written(spec, name)}
        maps = {
            name: dict(kernel_entries(loaded.maps[name], one.key_size, one.value_size))
            for name, one in spec.maps.items()
            if one.type in (1, 2)
        }
        return found, (variables, maps)


def kernel_entries(fd: int, key_size: int, value_size: int) -> Iterator[tuple[bytes, bytes]]:
    from xdplab.kernel.libbpf import library

    bpf = library()
    key, value = ctypes.create_string_buffer(key_size), ctypes.create_string_buffer(value_size)
    following: Callable[..., int] = bpf.bpf_map_get_next_key
    result = following(fd, None, key)
    while result == 0:
        assert bpf.bpf_map_lookup_elem(fd, key, value) == 0
        yield key.raw, value.raw
        result = following(fd, key, key)


@pytest.mark.needs_kernel
@pytest.mark.parametrize("name", [*SHIPPED, "made"])
def test_the_kernel_does_the_same(name: str) -> None:
    spec = made_object() if name == "made" else shipped_object(name)
    steps = plan(spec, 3, 600 if name != "calibrate" else 3)
    assert run_user(spec, steps, Mode.TIMED) == run_kernel(spec, steps)


def test_counts_are_those_of_the_interpreter() -> None:
    spec = made_object()
    with UserObject(spec, Options(Mode.COUNTED)) as owner, UserObject(spec) as other:
        interpreter = Interpreter(other)
        for name in ("count", "callbacks", "calls"):
            program = owner.program(name)
            program.reset_counts()
            frame = udp_frame("ipv4", 100)
            counted = program.run(frame)
            stepped = interpreter.run(link(spec, name), frame)
            assert counted.instructions == stepped.instructions
            counts = program.counts()
            assert counts.instructions == counted.instructions
            assert sum(counts.by_line().values()) == counted.instructions
        assert owner.program("calls").counts().by_helper() == {"xdp_load_bytes": 1}
        lines = owner.program("callbacks").counts().by_line()
        (in_loop,) = [
            number
            for number, text in enumerate(SOURCE.splitlines(), 1)
            if "context->sum = context->sum * 33" in text
        ]
        assert lines[("made.bpf.c", in_loop)] % 40 == 0


def test_tail_calls_end_after_33() -> None:
    spec = made_object()
    for mode in Mode:
        with UserObject(spec, Options(mode)) as owner:
            frame = Frame(b"\1" + bytes(63))
            assert owner.program("first").run(frame).retval == 3
            trail = owner.memory_of("trail").raw
            assert int.from_bytes(trail[20:24], "little") == 33


def test_tail_calls_follow_a_program_that_is_placed_anew() -> None:
    with UserObject(made_object()) as owner:
        first, third = owner.program("first"), owner.program("third")
        for _ in range(3):
            before = third.address
            third.place_anew()
            assert third.address != before
            assert first.run(Frame(b"\2" + bytes(63))).retval == 2
