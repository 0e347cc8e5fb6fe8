"""Interfaces of one network namespace, made and set by netlink. No policy.

pyroute2 speaks the protocol; its errors become ours here. Looking at interfaces is interface.py's
work, driver's counters are ethtool.py's.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from xdplab.errors import KernelError, NotPossibleError

# linux/sched.h, linux/mount.h.
_CLONE_NEWNS, _CLONE_NEWNET = 0x00020000, 0x40000000
_MS_REC, _MS_PRIVATE = 1 << 14, 1 << 18

_IPV6 = Path("/proc/sys/net/ipv6/conf")


@dataclass(frozen=True, slots=True)
class VethEnd:
    """One end of a pair to be made: its name, its MAC address as text, and the namespace that it
    will be in (None: that of the `Links` that makes it)."""

    name: str
    mac: str
    namespace_fd: int | None = None


class Links:
    """rtnetlink in the network namespace that the opening thread is in. A context manager.

    Every method raises KernelError with the errno, NotPossibleError where a right is missing.
    """

    def __init__(self) -> None:
        # A fifth of a second to import, which only who touches interfaces should wait for.
        from pyroute2 import IPRoute

        self._netlink: Any = IPRoute()

    def add_veth(self, near: VethEnd, far: VethEnd, queues: int) -> None:
        """Make a pair of veth interfaces, both down, with `queues` rx and tx queues each."""

        def end(of: VethEnd) -> dict[str, Any]:
            known = {
                "ifname": of.name,
                "address": of.mac,
                "num_tx_queues": queues,
                "num_rx_queues": queues,
            }
            return known if of.namespace_fd is None else {**known, "net_ns_fd": of.namespace_fd}

        with _netlink_errors(f"making the veth pair {near.name}-{far.name}"):
            self._netlink.link("add", kind="veth", **end(near), peer=end(far))

    def set_mtu(self, ifindex: int, mtu_bytes: int) -> None:
        """Set the MTU; both ends of a veth pair need it."""
        with _netlink_errors(f"setting the MTU of interface {ifindex} to {mtu_bytes}"):
            self._netlink.link("set", index=ifindex, mtu=mtu_bytes)

    def set_up(self, ifindex: int) -> None:
        """Bring the interface up; a veth has a carrier once both ends are."""
        with _netlink_errors(f"bringing interface {ifindex} up"):
            self._netlink.link("set", index=ifindex, state="up")

    def counters(self, ifindex: int) -> dict[str, int]:
        """The stack's counters of an interface: struct rtnl_link_stats64 by field."""
        with _netlink_errors(f"reading the counters of interface {ifindex}"):
            (message,) = self._netlink.get_links(ifindex)
        return {name: int(value) for name, value in message.get_attr("IFLA_STATS64").items()}

    def close(self) -> None:
        """Give the socket up."""
        self._netlink.close()

    def __enter__(self) -> Links:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


@contextlib.contextmanager
def _netlink_errors(tried: str) -> Iterator[None]:
    from pyroute2.netlink.exceptions import NetlinkError

    try:
        yield
    except NetlinkError as error:
        if error.code in {errno.EPERM, errno.EACCES}:
            raise NotPossibleError(
                f"{tried} was refused (EPERM): it takes CAP_NET_ADMIN. Run as root"
            ) from None
        if error.code == errno.EOPNOTSUPP:
            raise NotPossibleError(
                f"{tried} failed: this kernel does not have that kind of interface (EOPNOTSUPP). "
                "Load its module (modprobe veth) or take a kernel that has it"
            ) from None
        raise KernelError(tried, error.code) from None


def disable_ipv6() -> None:
    """Keep IPv6 off interfaces that will be made in this thread's namespace.

    Its own packets (neighbour discovery, router solicitation) would be counted as traffic. To be
    called before an interface is up: what is up has sent some already.
    """
    for name in ("all", "default"):
        # Where the kernel has no IPv6 there is nothing to keep off.
        with contextlib.suppress(FileNotFoundError):
            try:
                (_IPV6 / name / "disable_ipv6").write_text("1")
            except OSError as error:
                raise KernelError(
                    f"keeping IPv6 off a namespace by {_IPV6 / name}", error.errno or 0,
                    "Is /proc/sys mounted, and may it be written?",
                ) from None  # fmt: skip


def thread_napi(name: str, namespace_fd: int) -> None:
    """Have NAPI of that interface run in kernel threads of its own instead of softirqs.

    The switch is a file of sysfs, which shows the namespace that it was mounted in: a thread with
    a mount namespace of its own mounts it anew, and takes it along when it ends.
    """
    failures: list[OSError] = []

    def switch() -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        try:
            for result in (
                libc.unshare(_CLONE_NEWNS),
                libc.setns(namespace_fd, _CLONE_NEWNET),
                libc.mount(b"none", b"/", None, _MS_REC | _MS_PRIVATE, None),
                libc.mount(b"sysfs", b"/sys", b"sysfs", 0, None),
            ):
                if result < 0:
                    number = ctypes.get_errno()
                    raise OSError(number, os.strerror(number))
            Path("/sys/class/net", name, "threaded").write_text("1")
        except OSError as error:
            failures.append(error)

    thread = threading.Thread(target=switch)
    thread.start()
    thread.join()
    if failures:
        raise KernelError(
            f"moving NAPI of {name} into a thread", failures[0].errno or 0, "It takes Linux 5.12"
        )
