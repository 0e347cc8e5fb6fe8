"""Traits travel: over XDP_REDIRECT to veth and to a CPU, up the stack to tc, to AF_XDP sockets."""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.live.pairs import Place, join, places
from tests.net.sockets import line, packet
from xdplab import traits
from xdplab.kernel import bpf
from xdplab.kernel.libbpf import LoadedObject
from xdplab.kernel.testrun import TestRun
from xdplab.net import XskProgram
from xdplab.packets.frame import udp_frame
from xdplab.program import ObjectSpec, compile_object, compiler_version, read_object
from xdplab.program.shipped import shipped_object

pytestmark = pytest.mark.needs_kernel

FRAMES = 200
_LIVE_FRAMES = 1 << 1


class LiveRun(TestRun):
    """A test run whose frames go where the program sends them."""

    def __init__(self, prog_fd: int, frame: bytes) -> None:
        super().__init__(prog_fd, frame)
        self._attr.flags = _LIVE_FRAMES


@pytest.fixture
def pair() -> Iterator[tuple[Place, Place]]:
    """`one` in the first namespace, joined with `other` in the second."""
    with places(2) as (first, second):
        join(first, "one", second, "other")
        yield first, second


def attach(stack: ExitStack, place: Place, prog_fd: int, mode: int) -> None:
    """Attach to `other` until the stack is left."""
    with place.namespace:
        link = bpf.link_create_xdp(prog_fd, place.ifindex("other"), mode)
    stack.callback(os.close, link)


def wait_for(count: Callable[[], object], wanted: int) -> None:
    """Packets take their time, a poll or two."""
    until = time.monotonic() + 10
    while count() != wanted and time.monotonic() < until:
        time.sleep(0.01)


def compiled(name: str) -> ObjectSpec:
    """An object of this folder."""
    if compiler_version() is None:
        pytest.skip("no BPF compiler: neither ziglang nor clang is installed")
    source = Path(__file__).with_name(f"{name}.bpf.c")
    return read_object(compile_object(source, include=[traits.include_folder()]), name)


def test_over_a_redirect(pair: tuple[Place, Place]) -> None:
    here, there = pair
    spec = shipped_object("traits")
    with ExitStack() as stack:
        sender = stack.enter_context(LoadedObject(spec, ("redirect_with_traits",)))
        receiver = stack.enter_context(LoadedObject(spec, ("drop_with_traits",)))
        attach(stack, there, receiver.prog_fd("drop_with_traits"), bpf.XDP_FLAGS_DRV_MODE)
        sender.memory_of("redirect_ifindex").raw = here.ifindex("one").to_bytes(4, "little")
        with here.namespace:
            LiveRun(sender.prog_fd("redirect_with_traits"), udp_frame("ipv4", 64).data)(FRAMES)
        wait_for(lambda: receiver.read("carried"), FRAMES)
        assert (receiver.read("carried"), receiver.read("lost")) == (FRAMES, 0)


def test_to_another_cpu() -> None:
    with LoadedObject(compiled("above"), ("to_cpu_with_trait", "read_on_cpu")) as loaded:
        # struct bpf_cpumap_val: the length of its queue, and the program that runs there.
        entry = struct.pack("<Ii", 2048, loaded.prog_fd("read_on_cpu"))
        bpf.map_update(loaded.maps["cpus"], bytes(4), entry)
        LiveRun(loaded.prog_fd("to_cpu_with_trait"), udp_frame("ipv4", 64).data)(FRAMES)
        wait_for(lambda: loaded.read("found"), FRAMES)
        assert (loaded.read("found"), loaded.read("missed")) == (FRAMES, 0)


@pytest.mark.parametrize("mode", [bpf.XDP_FLAGS_DRV_MODE, bpf.XDP_FLAGS_SKB_MODE])
def test_up_with_pass(pair: tuple[Place, Place], mode: int) -> None:
    here, there = pair
    spec = compiled("above")
    with ExitStack() as stack:
        setter = stack.enter_context(LoadedObject(spec, ("pass_with_trait",)))
        reader = stack.enter_context(LoadedObject(spec, ("read_above",)))
        ifindex = there.ifindex("other")
        there.netlink.tc("add", "clsact", ifindex)
        there.netlink.tc(
            "add-filter",
            "bpf",
            ifindex,
            fd=reader.prog_fd("read_above"),
            name="read_above",
            parent="ffff:fff2",
            classid=1,
            direct_action=True,
        )
        attach(stack, there, setter.prog_fd("pass_with_trait"), mode)
        with here.namespace, socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sender:
            sender.bind(("one", 0))
            for _ in range(FRAMES):
                sender.send(udp_frame("ipv4", 64).data)
        wait_for(lambda: reader.read("found"), FRAMES)
        assert (reader.read("found"), reader.read("missed")) == (FRAMES, 0)


def test_to_a_socket() -> None:
    spec = compiled("above")
    with line() as pairs, ExitStack() as stack:
        receiver = pairs.open("v0", metadata=64)
        with pairs.inside("v0"):
            program = XskProgram("v0", spec=spec, name="to_socket_with_trait", map="sockets")
        stack.callback(program.close)
        program.add(receiver)
        pairs.sender().send([packet(number) for number in range(3)])
        with receiver.receive(timeout_s=5) as batch:
            assert [bytes(one) for one in batch] == [packet(number) for number in range(3)]
            for number in range(3):
                area = batch.metadata(number)
                assert area is not None
                value = (0x1122334455667788).to_bytes(8, "little")
                assert traits.decode(area.tobytes()) == {40: value}
