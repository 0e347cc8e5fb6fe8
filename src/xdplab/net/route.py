"""A route that bpf_fib_lookup finds, in a network namespace of our own."""

from __future__ import annotations

import errno
import ipaddress
from pathlib import Path

from xdplab.errors import KernelError, NotPossibleError

_FORWARDING = Path("/proc/sys/net/ipv4/ip_forward")
_NAMES = ("route0", "route1")
_TRIED = "making a route in a network namespace"


def add_route(destination: str, gateway: str, gateway_mac: bytes) -> None:
    """Have the calling thread's namespace reach `destination` by way of `gateway`.

    By a veth pair made for it, of which one end is in the gateway's network of 24 bits; the
    gateway's MAC address (6 bytes) is written down for good, and IPv4 is forwarded. To be called
    inside a namespace of our own. NotPossibleError where the kernel or a right is missing for it.
    """
    # A fifth of a second to import, which only who makes routes should wait for.
    from pyroute2 import IPRoute
    from pyroute2.netlink.exceptions import NetlinkError

    network = ipaddress.IPv4Interface(f"{gateway}/24").network
    own = next(host for host in network.hosts() if str(host) != gateway)
    try:
        _FORWARDING.write_text("1")
        with IPRoute() as netlink:
            netlink.link("add", ifname=_NAMES[0], kind="veth", peer={"ifname": _NAMES[1]})
            near, far = (netlink.link_lookup(ifname=name)[0] for name in _NAMES)
            netlink.addr("add", index=near, address=str(own), prefixlen=network.prefixlen)
            netlink.link("set", index=near, state="up")
            netlink.link("set", index=far, state="up")
            netlink.neigh(
                "add",
                ifindex=near,
                dst=gateway,
                lladdr=gateway_mac.hex(":"),
                state="permanent",
            )
            netlink.route("add", dst=destination, gateway=gateway)
    except (NetlinkError, OSError) as error:
        number = error.code if isinstance(error, NetlinkError) else error.errno or 0
        if number == errno.EPERM:
            raise NotPossibleError(
                f"{_TRIED} was refused (EPERM): it takes CAP_NET_ADMIN. Run as root"
            ) from None
        if number == errno.EOPNOTSUPP:
            raise NotPossibleError(
                f"{_TRIED} failed: this kernel has no veth interfaces (EOPNOTSUPP). Load their "
                "module (modprobe veth)"
            ) from None
        raise KernelError(_TRIED, number) from None
