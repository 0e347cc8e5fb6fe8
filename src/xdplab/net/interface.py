"""Interfaces that a user names: what they are, and whether xdplab may touch them.

Everything is asked in the network namespace of the calling thread.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xdplab.errors import KernelError, NotPossibleError, UsageError
from xdplab.kernel import bpf
from xdplab.kernel.namespace import entered
from xdplab.net import ethtool

# pyroute2's names of the programs that an interface may have at once (linux/if_link.h).
_PROGRAM_IDS: dict[str, str] = {
    "IFLA_XDP_DRV_PROG_ID": "native",
    "IFLA_XDP_SKB_PROG_ID": "skb",
    "IFLA_XDP_HW_PROG_ID": "offload",
}
_IFF_UP = 1
_UNICAST = 1


@dataclass(frozen=True, slots=True)
class Peer:
    """The other end of a veth pair: its ifindex, and its namespace as ours numbers it.

    `nsid` is None where the peer lies in the same namespace.
    """

    ifindex: int
    nsid: int | None


@dataclass(frozen=True, slots=True)
class Interface:
    """A network interface when it was looked at.

    `kind` is the link's kind ("veth", "bridge", "" for hardware), `driver` ethtool's name of its
    driver, `mac` six bytes. `is_up` is its administrative state; with `has_carrier` the other end
    is there, too. `programs` are the XDP programs on it: mode -> program id.
    """

    name: str
    ifindex: int
    kind: str
    driver: str
    mtu: int
    mac: bytes
    is_up: bool
    has_carrier: bool
    rx_queues: int
    programs: dict[str, int]
    peer: Peer | None


def find_interface(name: str) -> Interface:
    """The interface of that name; UsageError, with the names that there are, where none is."""
    with _netlink() as netlink:
        found = list(netlink.get_links(ifname=name)) if 0 < len(name.encode()) < 16 else []
        if not found:
            names = ", ".join(link.get("ifname") for link in netlink.get_links())
            raise UsageError(
                f"looking for the interface {name!r} failed: this network namespace has none of "
                f"that name. It has: {names}"
            )
        return _interface(found[0], ethtool.driver_name(name))


def named_interface(name: str, yes_this_interface: bool) -> Interface:
    """The interface that a user named to have traffic sent through it, dropped or redirected.

    UsageError where there is none, and where the machine is reached through it, unless
    `yes_this_interface` says that this is meant.
    """
    interface = find_interface(name)
    if not yes_this_interface:
        reason = _why_vital(interface)
        if reason:
            raise UsageError(
                f"{name} was not touched: {reason}, so that this machine may be cut off. Name "
                "another interface, or add --yes-this-interface if this one is meant"
            )
    return interface


def refuse_second_program(interface: Interface) -> None:
    """UsageError where the interface has an XDP program: none is ever replaced or stacked on."""
    for mode, number in interface.programs.items():
        name = bpf.prog_name_by_id(number)
        called = f' "{name}"' if name else ""
        raise UsageError(
            f"{interface.name} has an XDP program already ({mode}, id {number}{called}), and "
            "xdplab replaces none. End the process that holds it; if none does (bpftool link "
            f"shows none), detach it (ip link set dev {interface.name} xdp off); or name another "
            "interface"
        )


def veth_peer(interface: Interface) -> Interface | None:
    """The other end of a veth pair, also in another namespace; None where it cannot be seen."""
    if interface.peer is None:
        return None
    with _netlink() as netlink:
        return _peer_of(interface.peer, netlink)


def why_peer_drops(interface: Interface) -> str:
    """Why a veth's peer will drop what XDP sends out of `interface`; "" where nothing says so.

    A veth takes frames from XDP_TX and XDP_REDIRECT only while its peer polls (NAPI), which it
    does with a native XDP program or with GRO on; else they vanish, and no call fails.
    """
    if interface.kind != "veth" or interface.peer is None:
        return ""
    with _netlink() as netlink:
        peer = _peer_of(interface.peer, netlink)
        if peer is None:
            return ""
        if not peer.is_up:
            return f"{interface.name}'s peer {peer.name} is down, and drops whatever is sent to it"
        if "native" in peer.programs:
            return ""
        namespace = _namespace(interface.peer.nsid, netlink)
    try:
        if namespace is None:
            return (
                f"{interface.name}'s peer {peer.name} has no native XDP program; unless it has GRO "
                "on, it drops what XDP sends to it"
            )
        with entered(namespace):
            gro = ethtool.has_gro(peer.name)
    finally:
        if namespace is not None:
            os.close(namespace)
    if gro:
        return ""
    return (
        f"{interface.name}'s peer {peer.name} has neither a native XDP program nor GRO, so that it "
        f"drops what XDP sends to it. Start one there (xdplab pass {peer.name}), or: "
        f"ethtool -K {peer.name} gro on"
    )


@contextlib.contextmanager
def _netlink() -> Iterator[Any]:
    # Takes a tenth of a second to import: only who names an interface should wait for it.
    from pyroute2 import IPRoute
    from pyroute2.netlink.exceptions import NetlinkError

    try:
        with IPRoute() as netlink:
            yield netlink
    except NetlinkError as error:
        raise KernelError("asking for network interfaces", error.code) from None
    except OSError as error:
        raise NotPossibleError(
            f"asking for network interfaces failed: {error.strerror or error}. A netlink socket is "
            "needed, which some sandboxes do not allow"
        ) from None


def _interface(link: Any, driver: str) -> Interface:
    xdp = link.get("xdp")
    programs = {
        mode: number
        for attribute, mode in _PROGRAM_IDS.items()
        if xdp is not None and (number := xdp.get_attr(attribute))
    }
    info = link.get("linkinfo")
    kind = (info.get_attr("IFLA_INFO_KIND") if info is not None else None) or ""
    peer = None
    if kind == "veth" and link.get("link"):
        peer = Peer(link.get("link"), link.get("link_netnsid"))
    return Interface(
        name=link.get("ifname"),
        ifindex=link["index"],
        kind=kind,
        driver=driver,
        mtu=link.get("mtu"),
        mac=bytes.fromhex((link.get("address") or "").replace(":", "")),
        is_up=bool(link["flags"] & _IFF_UP),
        has_carrier=bool(link.get("carrier")),
        rx_queues=link.get("num_rx_queues") or 1,
        programs=programs,
        peer=peer,
    )


def _why_vital(interface: Interface) -> str:
    """Why this machine may be reached through the interface; "" where nothing says so."""
    with _netlink() as netlink:
        links = {link["index"]: link for link in netlink.get_links()}
        for ifindex in _default_route_interfaces(netlink):
            for below, way in _below(ifindex, links):
                if below != interface.ifindex:
                    continue
                if not way:
                    return "it carries the default route"
                return f"it carries the default route, by way of {' and '.join(way)}"
    return ""


def _default_route_interfaces(netlink: Any) -> set[int]:
    found = set()
    for family in (socket.AF_INET, socket.AF_INET6):
        for route in netlink.get_routes(family=family):
            if route["dst_len"] or route["type"] != _UNICAST:
                continue
            hops = [hop["oif"] for hop in route.get("multipath") or ()]
            found |= {number for number in (route.get("oif"), *hops) if number}
    return found


def _below(ifindex: int, links: dict[int, Any]) -> Iterator[tuple[int, list[str]]]:
    """An interface and all that its packets pass below it: a bridge's ports, a VLAN's carrier.

    Each with the names on the way to it.
    """
    waiting: list[tuple[int, list[str]]] = [(ifindex, [])]
    seen = set()
    while waiting:
        number, way = waiting.pop()
        if number in seen or number not in links:
            continue
        seen.add(number)
        yield number, way
        link = links[number]
        name = link.get("ifname")
        lower = [port for port, other in links.items() if other.get("master") == number]
        if link.get("link") and link.get("link_netnsid") is None:
            info = link.get("linkinfo")
            # A veth's link is its peer, which is beside it and not below.
            if info is None or info.get_attr("IFLA_INFO_KIND") != "veth":
                lower.append(link.get("link"))
        waiting += [(port, [name, *way]) for port in lower]


def _peer_of(peer: Peer, netlink: Any) -> Interface | None:
    from pyroute2.netlink.exceptions import NetlinkError

    where = {} if peer.nsid is None else {"if_netnsid": peer.nsid}
    try:
        (link,) = netlink.link("get", index=peer.ifindex, **where)
    except NetlinkError as error:
        # Its namespace may be one that this user has no right in, or be gone by now.
        if error.code in {errno.EPERM, errno.EACCES, errno.ENODEV, errno.EINVAL}:
            return None
        raise
    return _interface(link, "")


def _namespace(nsid: int | None, netlink: Any) -> int | None:
    """A descriptor of the namespace that ours numbers `nsid` (None: ours), if some process shows
    it."""
    if nsid is None:
        return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    for path in _namespace_files():
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            continue
        if netlink.get_netnsid(fd=descriptor)["nsid"] == nsid:
            return descriptor
        os.close(descriptor)
    return None


def _namespace_files() -> Iterable[Path]:
    """One file for each network namespace that can be seen: named, of a process, or held open."""
    seen = set()
    for pattern in ("/run/netns/*", "/proc/[0-9]*/ns/net", "/proc/[0-9]*/fd/*"):
        base, _, rest = pattern[1:].partition("/")
        for path in Path("/", base).glob(rest):
            try:
                if base == "proc" and not str(path.readlink()).startswith("net:["):
                    continue
                inode = path.stat().st_ino
            except OSError:
                continue
            if inode not in seen:
                seen.add(inode)
                yield path
