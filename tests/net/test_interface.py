"""What xdplab finds out about an interface before it touches it, and when it refuses."""

from __future__ import annotations

import os
import re
import socket
from pathlib import Path

import pytest

from tests.live.pairs import join, places
from xdplab.errors import UsageError
from xdplab.kernel import bpf
from xdplab.kernel.libbpf import LoadedObject
from xdplab.kernel.namespace import NetworkNamespace, entered
from xdplab.net.ethtool import DriverCounters
from xdplab.net.interface import (
    Peer,
    find_interface,
    named_interface,
    refuse_second_program,
    why_peer_drops,
)
from xdplab.program.shipped import shipped_object

pytestmark = pytest.mark.needs_kernel


def test_an_interface_is_what_it_was_made() -> None:
    with places(2) as (a, b):
        join(a, "v0", b, "v1", queues=3)
        a.set("v0", mtu=1400)
        b.set("v1", state="down")
        with a.namespace:
            found = find_interface("v0")
        with b.namespace:
            peer = find_interface("v1")
    assert (found.name, found.kind, found.driver, found.mtu) == ("v0", "veth", "veth", 1400)
    assert (found.is_up, found.has_carrier, peer.is_up) == (True, False, False)
    assert found.rx_queues == 3
    assert found.mac == bytes.fromhex("020000000000")
    assert found.peer is not None
    assert found.peer.ifindex == peer.ifindex
    assert found.peer.nsid is not None
    assert found.programs == {}


def test_both_ends_in_one_namespace_know_one_another() -> None:
    with places(1) as (a,):
        join(a, "v0", a, "v1")
        with a.namespace:
            first, second = find_interface("v0"), find_interface("v1")
    assert first.peer == Peer(second.ifindex, None)
    assert second.peer == Peer(first.ifindex, None)


@pytest.mark.parametrize("name", ["v7", "", "a-name-of-sixteen", "ü" * 8, "lo "])
def test_a_name_that_nobody_has_is_answered_with_those_there_are(name: str) -> None:
    namespace = NetworkNamespace()
    try:
        with namespace, pytest.raises(UsageError, match=re.escape(repr(name)) + ".* has: lo"):
            named_interface(name, False)
    finally:
        namespace.close()


# --- the machine's own way out


def routed(family: str, through: str) -> str:
    """What is said of v0 where a default route of that family goes through that interface."""
    addresses = {"ipv4": ("192.0.2.1", 24, "192.0.2.2"), "ipv6": ("2001:db8::1", 64, "2001:db8::2")}
    address, length, gateway = addresses[family]
    with places(2) as (a, b):
        join(a, "v0", b, "v1")
        with a.namespace:
            if family == "ipv6":
                Path("/proc/sys/net/ipv6/conf/all/disable_ipv6").write_text("0")
            a.netlink.link("add", ifname="br0", kind="bridge")
            a.set("br0", state="up")
            if through == "br0":
                a.set("v0", master=a.ifindex("br0"))
            index = a.ifindex(through)
            a.netlink.addr("add", index=index, address=address, prefixlen=length)
            a.netlink.route("add", dst="default", gateway=gateway, oif=index)
            try:
                named_interface("v0", False)
            except UsageError as error:
                assert named_interface("v0", True).name == "v0"
                return str(error)
            return ""


@pytest.mark.parametrize("family", ["ipv4", "ipv6"])
def test_the_default_route_is_not_touched_unasked(family: str) -> None:
    message = routed(family, "v0")
    assert "v0 was not touched: it carries the default route, so" in message
    assert "--yes-this-interface" in message


def test_nor_is_a_port_of_the_bridge_that_carries_it() -> None:
    assert "it carries the default route, by way of br0" in routed("ipv4", "br0")


def test_other_routes_do_not_protect_an_interface() -> None:
    with places(2) as (a, b):
        join(a, "v0", b, "v1")
        with a.namespace:
            index = a.ifindex("v0")
            a.netlink.addr("add", index=index, address="192.0.2.1", prefixlen=24)
            a.netlink.route("add", dst="198.51.100.0/24", gateway="192.0.2.2")
            # Everything that goes nowhere is a default route without an interface.
            a.netlink.route("add", dst="0.0.0.0/0", type="unreachable", family=socket.AF_INET)
            assert named_interface("v0", False).ifindex == index


def test_one_path_of_a_multipath_default_route_is_enough() -> None:
    with places(2) as (a, b):
        join(a, "v0", b, "v1")
        join(a, "v2", b, "v3", pair=1)
        with a.namespace:
            hops = []
            for name, net in (("v0", 2), ("v2", 3)):
                a.netlink.addr("add", index=a.ifindex(name), address=f"10.0.{net}.1", prefixlen=24)
                hops.append({"gateway": f"10.0.{net}.2", "oif": a.ifindex(name)})
            a.netlink.route("add", dst="0.0.0.0/0", multipath=hops, family=socket.AF_INET)
            for name in ("v0", "v2"):
                with pytest.raises(UsageError, match="default route"):
                    named_interface(name, False)


# --- programs and peers


@pytest.mark.parametrize(
    ("flags", "mode"), [(bpf.XDP_FLAGS_DRV_MODE, "native"), (bpf.XDP_FLAGS_SKB_MODE, "skb")]
)
def test_an_interface_with_a_program_is_refused_and_the_program_named(
    flags: int, mode: str
) -> None:
    with places(2) as (a, b), LoadedObject(shipped_object("packet_access"), ("no_touch",)) as one:
        join(a, "v0", b, "v1")
        with a.namespace:
            refuse_second_program(find_interface("v0"))
            link = bpf.link_create_xdp(one.prog_fd("no_touch"), a.ifindex("v0"), flags)
            try:
                found = find_interface("v0")
                with pytest.raises(UsageError, match=f'{mode}, id [0-9]+ "no_touch"'):
                    refuse_second_program(found)
            finally:
                os.close(link)
            assert list(found.programs) == [mode]
            assert not find_interface("v0").programs


def test_a_peer_that_drops_what_xdp_sends_is_named_with_its_reason() -> None:
    with places(2) as (a, b), LoadedObject(shipped_object("packet_access"), ("no_touch",)) as one:
        join(a, "v0", b, "v1")
        with a.namespace:
            v0 = find_interface("v0")
            assert "peer v1 has neither a native XDP program nor GRO" in why_peer_drops(v0)
            b.set("v1", state="down")
            assert "peer v1 is down" in why_peer_drops(v0)
            b.set("v1", state="up")
            with entered(b.namespace.fd):
                link = bpf.link_create_xdp(
                    one.prog_fd("no_touch"), b.ifindex("v1"), bpf.XDP_FLAGS_DRV_MODE
                )
            try:
                assert why_peer_drops(v0) == ""
            finally:
                os.close(link)
            assert "neither" in why_peer_drops(v0)
            assert why_peer_drops(find_interface("lo")) == ""


def test_drivers_counters_count() -> None:
    with places(2) as (a, b):
        join(a, "v0", b, "v1")
        with a.namespace:
            before = DriverCounters("v0").read()
            assert before["peer_ifindex"] == b.ifindex("v1")
            assert before["rx_queue_0_xdp_packets"] == 0
            # The loopback device's driver has none, which is no error.
            assert DriverCounters("lo").read() == {}
            with pytest.raises(OSError, match="No such device"):
                DriverCounters("v7")
