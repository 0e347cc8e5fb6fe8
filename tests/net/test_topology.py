"""A topology is what it says, keeps to itself, and goes with its process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.net.lab import lab
from xdplab.errors import KernelError
from xdplab.kernel import bpf
from xdplab.kernel.namespace import entered
from xdplab.net.topology import Topology

pytestmark = pytest.mark.needs_kernel


def interfaces() -> set[str]:
    """Names of the interfaces of this thread's namespace."""
    lines = Path("/proc/thread-self/net/dev").read_text().splitlines()[2:]
    return {line.split(":")[0].strip() for line in lines}


def test_interfaces_are_up_in_namespaces_of_their_own() -> None:
    at_home = interfaces()
    with Topology(mtu_bytes=3000) as topology:
        assert interfaces() == at_home
        for name, port in topology.ports.items():
            with topology.inside(name):
                assert name in interfaces()
            found = topology.look_at(name)
            assert (found.is_up, found.has_carrier, found.mtu) == (True, True, 3000)
            assert found.ifindex == port.ifindex
            assert topology.ports[port.peer].peer == name
            assert found.mac.hex(":") == port.mac
        assert {topology.ports[name].namespace for name in ("v1", "v3")} == {"outside"}
        assert {topology.ports[name].namespace for name in ("v0", "v2")} == {"dut"}


def test_no_packet_is_sent_by_itself() -> None:
    with Topology() as topology:
        for name in topology.ports:
            with topology.inside(name):
                switch = Path("/proc/sys/net/ipv6/conf", name, "disable_ipv6")
                assert not switch.exists() or switch.read_text() == "1\n"
        time.sleep(0.2)
        assert {topology.counters(name)["tx_packets"] for name in topology.ports} == {0}


def test_programs_come_and_go_and_are_replaced() -> None:
    with lab({"v0": "drop"}) as made:
        before = made.topology.look_at("v0").programs["native"]
        made.attach("v0", "tx")
        after = made.topology.look_at("v0").programs
        assert set(after) == {"native"}
        assert after["native"] != before
        made.topology.detach("v0")
        made.topology.detach("v0")
        assert made.topology.look_at("v0").programs == {}
        made.attach("v0", "drop", "generic")
        assert set(made.topology.look_at("v0").programs) == {"skb"}


def test_what_the_kernel_refuses_is_said() -> None:
    with Topology() as topology, pytest.raises(KernelError, match="attaching a program to v0"):
        topology.attach("v0", 0)


def test_gro_is_switched() -> None:
    with Topology() as topology:
        for on in (True, False):
            topology.set_gro("v0", on)
            assert topology.has_gro("v0") is on
            assert topology.has_gro("v2") is False


def napi_threads() -> set[str]:
    """Kernel threads that poll an interface v0, by process number."""
    found = set()
    for comm in Path("/proc").glob("[0-9]*/comm"):
        try:
            if comm.read_text().startswith("napi/v0-"):
                found.add(comm.parent.name)
        except OSError:
            continue
    return found


def test_napi_can_have_a_thread_and_mounts_nothing() -> None:
    mounts = Path("/proc/self/mountinfo").read_text()
    before = napi_threads()
    with lab({"v0": "drop"}, threaded=True):
        assert napi_threads() - before
        assert Path("/proc/self/mountinfo").read_text() == mounts


def test_closing_gives_the_namespaces_up() -> None:
    topology = Topology()
    descriptor = os.dup(topology.namespace_fd("v0"))
    try:
        topology.close()
        with entered(descriptor):
            # Closed by nobody but us now: the interfaces are still there for who holds it.
            assert "v0" in interfaces()
    finally:
        os.close(descriptor)


SENDING = """
import sys, time
from tests.net.lab import lab
from xdplab.net.generators.base import Sender
from xdplab.net.generators.programs import {generator}
with lab({{"v0": "tx", "v1": "sink_drop", "v3": "sink_pass"}}) as made:
    with {generator}(made.outlet, made.traffic("v1")) as generator:
        with Sender(generator, made.outlet):
            print("sending", flush=True)
            time.sleep(60)
"""


@pytest.mark.parametrize("generator", ["FramesGenerator", "SkbGenerator"])
def test_sigkill_while_sending_leaves_nothing(generator: str) -> None:
    before = bpf.live_ids()
    root = Path(__file__).resolve().parents[2]
    process = subprocess.Popen(
        [sys.executable, "-c", SENDING.format(generator=generator)],
        stdout=subprocess.PIPE,
        cwd=root,
        text=True,
    )
    assert process.stdout is not None
    with process.stdout:
        assert process.stdout.readline() == "sending\n"
    time.sleep(0.05)
    of_namespaces = {
        link.stat().st_ino
        for link in Path(f"/proc/{process.pid}/fd").iterdir()
        if str(link.readlink()).startswith("net:[")
    }
    during = bpf.live_ids()
    assert of_namespaces
    assert all(during[kind] - before[kind] for kind in ("prog", "map", "link"))
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait(30) == -signal.SIGKILL
    until = time.monotonic() + 10
    # Others may load and unload meanwhile: what was there during the run must go.
    left = {kind: during[kind] - before[kind] for kind in during}
    while any(left.values()) and time.monotonic() < until:
        time.sleep(0.02)
        now = bpf.live_ids()
        left = {kind: ids & now[kind] for kind, ids in left.items()}
    held = set()
    for entry in Path("/proc").glob("[0-9]*/fdinfo/*"):
        try:
            text = entry.read_text()
        except OSError:
            continue
        held |= {int(line.split()[1]) for line in text.splitlines() if "_id:" in line}
    assert {kind: ids - held for kind, ids in left.items() if ids - held} == {}
