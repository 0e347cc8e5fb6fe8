"""The runtime by itself, without programs and privileges: helpers, clearing, the packet loop."""

from __future__ import annotations

import ctypes
import hashlib
import json
import re
import struct
import time
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xdplab.packets.frame import Frame
from xdplab.program import MapSpec
from xdplab.user.abi import (
    HEADROOM_BYTES,
    ClearHead,
    Move,
    Redirect,
    UserBuffer,
    UserFrame,
    UserJob,
    UserMapStruct,
    UserRoute,
    UserState,
)
from xdplab.user.buffer import FrameBuffer, frame_bytes
from xdplab.user.cache import ObjectCache
from xdplab.user.maps import Record, UserMap
from xdplab.user.prototypes import HELPERS, KFUNCS, ArgumentKind
from xdplab.user.runtime import Host, RuntimeLibrary, adjust_head_variant, library

EINVAL, ENOENT, ENOTSUPP = 22, 2, 524
CALLBACK = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_void_p, *[ctypes.c_uint64] * 5)
PROGRAM = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_void_p)
Program = Any  # what PROGRAM makes: ctypes has no public name for it


@dataclass
class Machine:
    """A frame, its state and its host; `call` is a program's call of a helper."""

    host: Host
    state: UserState
    frame: UserFrame
    buffer: FrameBuffer | None = None

    def call(self, name: str, *arguments: int) -> int:
        """r0 as a signed number."""
        symbol = name if name.startswith("user_variant") else f"user_helper_{name}"
        function = library().function(
            symbol, ctypes.c_int64, ctypes.c_void_p, *[ctypes.c_uint64] * 5
        )
        registers = [number & (1 << 64) - 1 for number in arguments]
        return int(function(ctypes.addressof(self.frame), *registers, *[0] * (5 - len(registers))))

    def receive(self, buffer: FrameBuffer) -> None:
        """What the packet loop does before each packet."""
        self.buffer = buffer
        for name in ("hard_start", "hard_end", "data", "data_end", "data_meta"):
            setattr(self.frame, name, getattr(buffer.buffer, name))


@pytest.fixture
def machine() -> Machine:
    host = Host(nr_cpus=2)
    state = host.new_state(cpu=1, seed=7)
    return Machine(host, state, UserFrame(state=ctypes.addressof(state)))


def spec(
    type: int, key: int, value: int, max_entries: int, flags: int = 0, name: str = "m"
) -> MapSpec:
    return MapSpec(name, type, str(type), key, value, max_entries, flags)


def word(number: int) -> bytes:
    return number.to_bytes(4, "little")


def address(data: ctypes.Array[ctypes.c_char]) -> int:
    return ctypes.addressof(data)


def test_every_prototype_has_its_function() -> None:
    symbols = library().symbols()
    for one in (*HELPERS.values(), *KFUNCS.values()):
        assert len(one.arguments) <= 5
        for symbol in (one.symbol, *one.by_map_type.values()):
            assert symbol in symbols
        for argument in one.arguments:
            if argument.size_argument is not None:
                assert one.arguments[argument.size_argument - 1].kind is ArgumentKind.SIZE


def test_every_function_of_a_helper_has_a_prototype() -> None:
    known = {
        symbol
        for one in (*HELPERS.values(), *KFUNCS.values())
        for symbol in (one.symbol, *one.by_map_type.values())
    }
    assert {name for name in library().symbols() if name.startswith("user_helper_")} == known


@given(
    how=st.sampled_from(ClearHead),
    move=st.sampled_from(Move),
    offset=st.integers(-216, 0),
    metadata=st.sampled_from([0, 4, 8, 12, 60, 96]),
)
def test_variants_of_adjust_head_differ_in_nothing_but_the_bytes_they_clear(
    how: ClearHead, move: Move, offset: int, metadata: int
) -> None:
    host = Host()
    state = host.new_state()
    one = Machine(host, state, UserFrame(state=ctypes.addressof(state)))
    buffer = FrameBuffer(Frame(bytes(range(1, 65)), bytes(range(100, 100 + metadata))))
    old = bytes(index % 250 + 1 for index in range(HEADROOM_BYTES - metadata))
    ctypes.memmove(buffer.buffer.hard_start, old, len(old))
    one.receive(buffer)
    state.clear_head, state.trait_move = how, move
    result = one.call("xdp_adjust_head", 0, offset)
    if how is ClearHead.NONE or move is Move.MEMMOVE:
        other = Machine(host, host.new_state(), UserFrame())
        twin = FrameBuffer(Frame(bytes(range(1, 65)), bytes(range(100, 100 + metadata))))
        ctypes.memmove(twin.buffer.hard_start, old, len(old))
        other.receive(twin)
        assert other.call(adjust_head_variant(how, move), 0, offset) == result
        assert frame_bytes(other.frame) == frame_bytes(one.frame)
    if offset + HEADROOM_BYTES - metadata < 40 + metadata - metadata:
        assert result == -EINVAL
        return
    assert result == 0
    data, meta = frame_bytes(one.frame)
    assert data[-64:] == bytes(range(1, 65))
    assert meta == bytes(range(100, 100 + metadata))
    exposed = data[:-64]
    assert len(exposed) == -offset
    if how is not ClearHead.NONE:
        assert exposed == bytes(-offset)
    else:
        before = (old + bytes(range(100, 100 + metadata)))[offset:] if offset else b""
        # Moved metadata may have overwritten what was in front of it, never what is exposed.
        assert exposed == before


def test_adjust_meta_says_no_where_the_driver_has_no_metadata(machine: Machine) -> None:
    machine.receive(FrameBuffer(Frame(bytes(64))))
    machine.frame.data_meta = machine.frame.data + 1
    assert machine.call("xdp_adjust_meta", 0, -4) == -ENOTSUPP
    assert machine.call("xdp_adjust_head", 0, -4) == 0
    assert machine.frame.data_meta == machine.frame.data + 1


def checksum(data: bytes, seed: int) -> int:
    """The Internet checksum's sum in 16 bits (RFC 1071), not complemented."""
    total = seed
    for (value,) in struct.iter_unpack("<H", data + b"\0" * (len(data) % 2)):
        total += value
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total


@given(st.binary(max_size=80), st.integers(0, (1 << 32) - 1))
def test_csum_diff_of_new_bytes_is_the_internet_checksum(data: bytes, seed: int) -> None:
    memory = ctypes.create_string_buffer(data, max(1, len(data)))
    one = Machine(Host(), UserState(), UserFrame())
    assert one.call("csum_diff", 0, 0, address(memory), len(data), seed) == checksum(data, seed)


@given(st.binary(min_size=4, max_size=60), st.binary(min_size=4, max_size=60), st.binary())
def test_csum_diff_of_a_change_moves_the_sum_as_the_change_does(
    old: bytes, new: bytes, rest: bytes
) -> None:
    old, new = old[: len(old) & ~3], new[: len(new) & ~3]
    before, after = ctypes.create_string_buffer(old), ctypes.create_string_buffer(new)
    one = Machine(Host(), UserState(), UserFrame())
    seed = checksum(old + rest, 0)
    result = one.call("csum_diff", address(before), len(old), address(after), len(new), seed)
    # Zero has two forms in ones' complement.
    assert result % 0xFFFF == checksum(new + rest, 0) % 0xFFFF


@pytest.mark.parametrize(
    ("text", "arguments", "written"),
    [
        ("%d %u %x", (-5, 7, 255), "-5 7 ff"),
        ("%lld|%llu", (-(1 << 40), 1 << 63), f"-{1 << 40}|{1 << 63}"),
        ("%5d|%-5d|%05d", (42, 42, -42), "   42|42   |-0042"),
        ("%#x %X 100%%", (10, 171), "0xa AB 100%"),
        ("%hhu %hd", (0x1FF, 0xFFFF), "255 -1"),
        ("%c%c", (104, 105), "hi"),
        ("%p", (0xABC,), "0000000000000abc"),
        ("%i\n", (3,), "3"),
    ],
)
def test_trace_printk_writes_as_printf(
    machine: Machine, text: str, arguments: tuple[int, ...], written: str
) -> None:
    template = ctypes.create_string_buffer(text.encode())
    result = machine.call("trace_printk", address(template), len(template), *arguments)
    assert result == len(written) + text.endswith("\n")
    assert machine.host.take_trace() == [written]
    assert machine.host.take_trace() == []


@pytest.mark.parametrize("text", ["%d%d%d%d", "%q", "%", "\xff", "%pZ"])
def test_trace_printk_refuses_what_it_does_not_know(machine: Machine, text: str) -> None:
    template = ctypes.create_string_buffer(text.encode("latin-1"))
    assert machine.call("trace_printk", address(template), len(template), 1, 2, 3) == -EINVAL
    assert machine.host.take_trace() == []


def test_strings_and_addresses_are_printed(machine: Machine) -> None:
    word_text = ctypes.create_string_buffer(b"word")
    ipv4 = ctypes.create_string_buffer(bytes([192, 0, 2, 1]), 4)
    template = ctypes.create_string_buffer(b"%6s %pI4")
    machine.call(
        "trace_printk", address(template), len(template), address(word_text), address(ipv4)
    )
    assert machine.host.take_trace() == ["  word 192.0.2.1"]


def test_clocks_tick_or_stand_still_as_asked(machine: Machine) -> None:
    before = time.monotonic_ns()
    assert before <= machine.call("ktime_get_ns") <= time.monotonic_ns()
    assert machine.call("ktime_get_boot_ns") > 0
    assert machine.call("jiffies64") > 0
    machine.state.fixed_time, machine.state.time_ns = 1, 8_000_000
    for name in ("ktime_get_ns", "ktime_get_boot_ns", "ktime_get_coarse_ns", "ktime_get_tai_ns"):
        assert machine.call(name) == 8_000_000
    assert machine.call("jiffies64") == 2


def test_random_numbers_are_the_seeds() -> None:
    def numbers(seed: int) -> list[int]:
        host = Host()
        state = host.new_state(seed=seed)
        one = Machine(host, state, UserFrame(state=ctypes.addressof(state)))
        return [one.call("get_prandom_u32") for _ in range(50)]

    assert numbers(3) == numbers(3) != numbers(4)
    assert len(set(numbers(0))) == 50
    assert all(0 <= number < 1 << 32 for number in numbers(0))


def test_percpu_maps_show_a_program_its_own_cpu(machine: Machine) -> None:
    for number in (5, 6, 10):
        with UserMap(spec(number, 4, 8, 2), nr_cpus=2) as counters:
            key, value = (
                ctypes.create_string_buffer(word(1)),
                ctypes.create_string_buffer(b"12345678"),
            )
            assert (
                machine.call("map_update_elem", counters.address, address(key), address(value)) == 0
            )
            assert counters.lookup_percpu(word(1)) == (bytes(8), b"12345678")
            found = machine.call("map_lookup_elem", counters.address, address(key))
            assert ctypes.string_at(found, 8) == b"12345678"
            first = machine.call("map_lookup_percpu_elem", counters.address, address(key), 0)
            assert ctypes.string_at(first, 8) == bytes(8)
            assert machine.call("map_lookup_percpu_elem", counters.address, address(key), 2) == 0


def test_functions_by_map_type_answer_as_the_general_one(machine: Machine) -> None:
    for kind, symbol in HELPERS[1].by_map_type.items():
        flags = 1 if kind == 11 else 0
        key_bytes = 8 if kind == 11 else 4
        value_bytes = 4 if kind in (12, 13) else 8
        with (
            UserMap(spec(2, 4, 8, 1)) as inner,
            UserMap(spec(kind, key_bytes, value_bytes, 2, flags), nr_cpus=2) as table,
        ):
            key = ctypes.create_string_buffer((word(1) * 2)[:key_bytes], key_bytes)
            if kind in (12, 13):
                table.set_map(key.raw, inner)
            else:
                table.update(key.raw, b"12345678")
            found = machine.call("map_lookup_elem", table.address, address(key))
            assert found
            assert found == machine.call(
                symbol.removeprefix("user_helper_"), table.address, address(key)
            )


def test_an_old_value_stays_readable_when_it_is_replaced(machine: Machine) -> None:
    with UserMap(spec(1, 4, 8, 2)) as table:
        key = ctypes.create_string_buffer(word(1))
        table.update(word(1), b"old old ")
        old = machine.call("map_lookup_elem", table.address, address(key))
        table.update(word(1), b"new new ")
        assert ctypes.string_at(old, 8) == b"old old "
        assert table.lookup(word(1)) == b"new new "


def test_lru_spares_what_programs_looked_up(machine: Machine) -> None:
    with UserMap(spec(9, 4, 8, 4)) as table:
        for number in range(4):
            table.update(word(number), bytes(8))
        key = ctypes.create_string_buffer(word(0))
        machine.call("map_lookup_elem", table.address, address(key))
        table.update(word(4), bytes(8))
        assert sorted(table.keys()) == [word(n) for n in (0, 2, 3, 4)]


@given(st.lists(st.tuples(st.sampled_from(["update", "delete"]), st.integers(0, 12)), max_size=80))
def test_lru_laws(commands: list[tuple[str, int]]) -> None:
    """Never more than fit, an update always works, and the latest is there with its value."""
    with UserMap(spec(9, 4, 4, 5)) as table:
        order: list[int] = []
        for turn, (command, number) in enumerate(commands):
            if command == "update":
                table.update(word(number), word(turn))
                assert table.lookup(word(number)) == word(turn)
            elif table.lookup(word(number)) is not None:
                table.delete(word(number))
            order = [other for other in order if other != number]
            order += [number] if command == "update" else []
            # Nobody looked up as programs do, so that it is exactly the oldest that go.
            assert sorted(table.keys()) == sorted(word(other) for other in order[-5:])
            order = order[-5:]


def test_ring_buffer_gives_records_in_order_and_leaves_discarded_ones_out(machine: Machine) -> None:
    with UserMap(spec(27, 0, 0, 4096)) as ring:
        for turn in range(1000):
            record = machine.call("ringbuf_reserve", ring.address, 100, 0)
            struct_values = ring.struct
            assert struct_values.values <= record
            assert record + 100 <= struct_values.values + struct_values.values_bytes
            ctypes.memmove(record, f"{turn:100}".encode(), 100)
            assert ring.drain() == []
            done = "ringbuf_discard" if turn % 3 == 0 else "ringbuf_submit"
            machine.call(done, record, 0)
            wanted = [] if turn % 3 == 0 else [Record(f"{turn:100}".encode())]
            assert ring.drain() == wanted
        room = (4096 - 1) // 112
        for _ in range(3):
            count = 0
            while record := machine.call("ringbuf_reserve", ring.address, 100, 0):
                machine.call("ringbuf_submit", record, 0)
                count += 1
            assert count == room
            # All at once, unread: then there is room again.
            ring.skip()
            assert ring.drain() == []


def test_a_lock_is_held_from_locking_to_unlocking(machine: Machine) -> None:
    value = (ctypes.c_uint32 * 3)(7, 0, 7)
    lock = ctypes.addressof(value) + 4
    machine.call("spin_lock", lock)
    assert list(value) == [7, 1, 7]
    machine.call("spin_unlock", lock)
    assert list(value) == [7, 0, 7]


def test_perf_events_need_a_listener_and_carry_the_packet(machine: Machine) -> None:
    machine.receive(FrameBuffer(Frame(bytes(range(64)))))
    payload = ctypes.create_string_buffer(b"payload!", 8)
    current_cpu = 0xFFFFFFFF
    with UserMap(spec(4, 4, 4, 2), nr_cpus=2) as events:
        arguments = (0, events.address, current_cpu | 20 << 32, address(payload), 8)
        assert machine.call("perf_event_output", *arguments) == -ENOENT
        events.listen()
        assert machine.call("perf_event_output", *arguments) == 0
        assert events.drain() == [Record(b"payload!" + bytes(range(20)), cpu=1)]
        while machine.call("perf_event_output", *arguments) == 0:
            pass
        assert events.lost_count == 1


def test_redirects_say_where_to(machine: Machine) -> None:
    state = machine.state
    assert machine.call("redirect", 5, 0) == 4
    assert (state.redirect_kind, state.redirect_ifindex) == (Redirect.IFINDEX, 5)
    with UserMap(spec(14, 4, 4, 8)) as devices:
        devices.update(word(3), word(7))
        assert machine.call("redirect_map", devices.address, 3, 0) == 4
        assert state.redirect_kind == Redirect.MAP
        assert (state.redirect_map, state.redirect_key) == (devices.address, 3)
        assert state.redirect_ifindex == 7
        assert machine.call("redirect_map", devices.address, 4, 2) == 2
        assert state.redirect_kind == Redirect.NONE
        assert machine.call("redirect_map", devices.address, 3, 1 << 5) == 0
        assert machine.call("redirect_map", devices.address, 4, 1 << 3) == 4
    with UserMap(spec(25, 4, 4, 8)) as devices:
        devices.update(word(1000), word(9))
        assert machine.call("redirect_map", devices.address, 1000, 0) == 4
    with UserMap(spec(17, 4, 4, 8)) as sockets:
        assert machine.call("redirect_map", sockets.address, 0, 2) == 2
        sockets.update(word(0), word(1))
        assert machine.call("redirect_map", sockets.address, 0, 2) == 4


def test_fib_lookup_takes_the_longest_prefix(machine: Machine) -> None:
    def route(prefix: str, ifindex: int, **others: int) -> UserRoute:
        address_text, _, bits = prefix.partition("/")
        network = bytes(map(int, address_text.split(".")))
        one = UserRoute(family=2, prefix_bits=int(bits), ifindex=ifindex, **others)
        one.address[:4] = list(network)
        one.dmac[:] = [2, 0, 0, 0, 0, ifindex]
        return one

    machine.host.set_routes(
        [
            route("10.0.0.0/8", 1),
            route("10.1.0.0/15", 2, mtu=1000),
            route("10.8.0.0/16", 3, result=1),
        ]
    )

    def ask(destination: str, length: int = 0) -> tuple[int, bytes]:
        family_to_length = struct.pack("<B5xH", 2, length)
        request = ctypes.create_string_buffer(
            family_to_length.ljust(32, b"\0") + bytes(map(int, destination.split("."))), 64
        )
        result = machine.call("fib_lookup", 0, address(request), 64, 0)
        return result, request.raw

    found, answer = ask("10.200.0.1")
    assert (found, answer[8:12], answer[58:64]) == (0, word(1), bytes([2, 0, 0, 0, 0, 1]))
    assert ask("10.0.9.9")[1][8:12] == word(2)
    assert ask("11.0.0.1")[0] == 4
    assert ask("10.8.0.1")[0] == 1
    found, answer = ask("10.1.0.1", 1001)
    assert (found, answer[6:8]) == (8, (1000).to_bytes(2, "little"))


def test_callbacks_are_called_until_they_say_so(machine: Machine) -> None:
    seen: list[tuple[int, int]] = []

    def count(_frame: int, index: int, context: int, *_rest: int) -> int:
        seen.append((index, context))
        return index == 4

    callback = CALLBACK(count)
    pointer = ctypes.cast(callback, ctypes.c_void_p).value or 0
    assert machine.call("loop", 3, pointer, 77, 0) == 3
    assert machine.call("loop", 100, pointer, 78, 0) == 5
    assert seen[:3] == [(0, 77), (1, 77), (2, 77)]
    assert machine.call("loop", 3, pointer, 0, 1) == -EINVAL
    assert machine.call("loop", (8 << 20) + 1, pointer, 0, 0) == -7


@pytest.mark.parametrize("type", [1, 2, 5, 6, 9])
def test_for_each_shows_every_entry(machine: Machine, type: int) -> None:
    with UserMap(spec(type, 4, 8, 4), nr_cpus=2) as table:
        for number in range(4):
            table.update(word(number), word(number) * 2)
        seen: list[tuple[bytes, bytes]] = []

        def look(
            _frame: int, address_of_map: int, key: int, value: int, context: int, _: int
        ) -> int:
            assert (address_of_map, context) == (table.address, 5)
            seen.append((ctypes.string_at(key, 4), ctypes.string_at(value, 8)))
            return 0

        callback = CALLBACK(look)
        pointer = ctypes.cast(callback, ctypes.c_void_p).value or 0
        assert machine.call("for_each_map_elem", table.address, pointer, 5, 0) == 4
        assert seen == list(table.items())


def test_number_iterators_run_over_a_half_open_range(machine: Machine) -> None:
    iterator = ctypes.create_string_buffer(8)

    def numbers(start: int, end: int) -> list[int]:
        found = []
        if machine.call("iter_num_new", address(iterator), start, end) == 0:
            while pointer := machine.call("iter_num_next", address(iterator)):
                found.append(ctypes.c_int32.from_address(pointer).value)
        machine.call("iter_num_destroy", address(iterator))
        return found

    assert numbers(-2, 3) == [-2, -1, 0, 1, 2]
    assert numbers(5, 5) == []
    assert machine.call("iter_num_new", address(iterator), 6, 5) == -EINVAL
    assert machine.call("iter_num_next", address(iterator)) == 0
    assert machine.call("iter_num_new", address(iterator), 0, (8 << 20) + 1) == -7


def job_of(machine: Machine, program: Program, buffers: list[FrameBuffer]) -> UserJob:
    array = (UserBuffer * len(buffers))(*[one.buffer for one in buffers])
    job = UserJob(
        program=ctypes.cast(program, ctypes.c_void_p),
        frame=ctypes.addressof(machine.frame),
        buffers=ctypes.addressof(array),
        buffer_count=len(buffers),
        clock=time.CLOCK_MONOTONIC,
        packets=10,
    )
    job.keep = array
    return job


def test_packet_loop_takes_buffers_in_turn_and_counts_actions(machine: Machine) -> None:
    buffers = [FrameBuffer(Frame(bytes([number]) * 64)) for number in range(3)]
    seen = []

    def handle(address_of_frame: int) -> int:
        frame = UserFrame.from_address(address_of_frame)
        first = ctypes.c_uint8.from_address(frame.data)
        seen.append(first.value)
        first.value = 99
        frame.data += 14
        return (2, 1, 100)[seen[-1]]

    job = job_of(machine, PROGRAM(handle), buffers)
    run = library().function("user_run", ctypes.c_uint64, ctypes.c_void_p)
    before = time.monotonic_ns()
    elapsed_ns = run(ctypes.addressof(job))
    assert 0 < elapsed_ns <= time.monotonic_ns() - before
    # Restored each time, so that what a program writes is not there the next time.
    assert seen == [0, 1, 2] * 3 + [0]
    assert job.done == 10
    assert list(job.actions) == [0, 3, 4, 0, 0, 0, 0, 3]


def test_packet_loop_leaves_bytes_alone_where_asked_and_ends_at_a_fault(machine: Machine) -> None:
    buffers = [FrameBuffer(Frame(bytes(64)), restores=False)]

    def handle(address_of_frame: int) -> int:
        frame = UserFrame.from_address(address_of_frame)
        first = ctypes.c_uint8.from_address(frame.data)
        first.value += 1
        if first.value == 4:
            machine.state.fault = 1
        return 1

    job = job_of(machine, PROGRAM(handle), buffers)
    library().function("user_run", ctypes.c_uint64, ctypes.c_void_p)(ctypes.addressof(job))
    assert job.done == 3
    assert list(job.actions)[:2] == [0, 3]


def test_runtime_names_no_processor_and_needs_only_libc() -> None:
    from xdplab.user.runtime import runtime_module

    text = str(runtime_module())
    assert "target-cpu" not in text
    declared = re.findall(r"^declare .*@([\w.]+)\(", text, re.MULTILINE)
    outside = {name for name in declared if not name.startswith("llvm.")}
    assert outside <= {"memcpy", "memmove", "memset", "memcmp", "bcmp", "clock_gettime"}


def test_shipped_runtime_is_made_of_these_sources() -> None:
    place = resources.files("xdplab").joinpath("user/runtime")
    record = json.loads(place.joinpath("objects/BUILD.json").read_text())
    sources = {
        one.name: hashlib.sha256(one.read_bytes()).hexdigest()
        for one in place.iterdir()
        if one.name.endswith((".c", ".h"))
    }
    assert record["sources"] == sources, "build again: scripts/test does"
    assert set(record["objects"]) == {"runtime.aarch64.ll", "runtime.x86_64.ll"}


def test_machine_code_is_kept_for_the_next_process(tmp_path: Path) -> None:
    first = RuntimeLibrary(ObjectCache(tmp_path))
    kept = list(tmp_path.iterdir())
    assert [one.name.startswith("runtime-") for one in kept] == [True]
    again = RuntimeLibrary(ObjectCache(tmp_path))
    assert again.symbols().keys() == first.symbols().keys()
    assert list(tmp_path.iterdir()) == kept
    # Symbols are known to LLVM by name: those of the process's own copy, again.
    for name, address_of_function in library().symbols().items():
        llvm.add_symbol(name, address_of_function)


def test_map_struct_is_the_programs_view() -> None:
    with UserMap(spec(2, 4, 12, 3)) as array:
        view = UserMapStruct.from_address(array.address)
        assert (view.type, view.key_bytes, view.value_bytes, view.max_entries) == (2, 4, 12, 3)
        assert (view.value_stride, view.values_bytes) == (16, 48)
