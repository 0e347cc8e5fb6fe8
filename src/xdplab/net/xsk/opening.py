"""The steps by which an AF_XDP socket comes to be, and why each may be refused, in one sentence."""

from __future__ import annotations

import ctypes
import errno
import resource
import socket
import struct
import time
from collections.abc import Mapping

from xdplab.errors import KernelError, MissingFeatureError, NotPossibleError, UsageError
from xdplab.net import ethtool
from xdplab.net.xsk import abi
from xdplab.net.xsk.rings import MmapOffsets, is_power_of_two
from xdplab.net.xsk.umem import Umem

_libc = ctypes.CDLL(None, use_errno=True)

_RELEASE_S = 0.002
"""Between two tries to bind: the kernel gives a queue that was closed free in 6 to 25 ms."""

_MOST_ENTRIES = 1 << 20
"""Of a ring. 16 MiB of descriptors; the kernel has no limit but its memory."""


def interface_index(interface: str) -> int:
    """ifindex of an interface in the calling thread's namespace; UsageError where there is none."""
    try:
        return socket.if_nametoindex(interface)
    except OSError:
        names = ", ".join(name for _, name in socket.if_nameindex()) or "none"
        raise UsageError(
            f"opening an AF_XDP socket on {interface!r} failed: this network namespace has no such "
            f"interface. It has: {names}"
        ) from None


def check_ring(name: str, entries: int) -> None:
    """UsageError unless a ring may have so many entries."""
    if not is_power_of_two(entries) or entries > _MOST_ENTRIES:
        raise UsageError(
            f"a ring of {entries} entries was asked for ({name}); a ring has a power of two of "
            f"entries, up to {_MOST_ENTRIES}, such as 2048"
        )


def open_socket() -> socket.socket:
    """An AF_XDP socket with nothing set up yet."""
    try:
        return socket.socket(abi.AF_XDP, socket.SOCK_RAW, 0)
    except OSError as error:
        if error.errno in {errno.EAFNOSUPPORT, errno.EPROTONOSUPPORT}:
            raise MissingFeatureError(
                "AF_XDP",
                "opening an AF_XDP socket failed (EAFNOSUPPORT): this kernel was built without "
                "CONFIG_XDP_SOCKETS. Run on a kernel that has it",
            ) from None
        if error.errno in {errno.EPERM, errno.EACCES}:
            raise NotPossibleError(
                "opening an AF_XDP socket was refused (EPERM): it takes CAP_NET_RAW in the network "
                "namespace. Run as root"
            ) from None
        raise KernelError("opening an AF_XDP socket", error.errno or 0) from None


def register_umem(xsk: socket.socket, umem: Umem) -> None:
    """Make memory the umem of a socket: the kernel pins its pages."""
    record = struct.pack(
        "=QQIIII", umem.address, umem.length_bytes, umem.chunk_bytes, umem.headroom_bytes, 0, 0
    )
    tried = f"making {umem.length_bytes} bytes the umem of an AF_XDP socket"
    try:
        xsk.setsockopt(abi.SOL_XDP, abi.XDP_UMEM_REG, record)
    except OSError as error:
        if error.errno == errno.ENOBUFS:
            limit, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
            raise NotPossibleError(
                f"{tried} was refused (ENOBUFS): this user may lock {limit} bytes of memory. Raise "
                f"the limit (ulimit -l {-(-umem.length_bytes // 1024)} or more), have "
                "CAP_IPC_LOCK, or ask for fewer frames"
            ) from None
        raise KernelError(
            tried, error.errno or 0, "Ask for fewer frames, or for smaller rings"
        ) from None


def make_ring(xsk: socket.socket, option: int, entries: int) -> None:
    """Have the kernel make one of the socket's rings."""
    try:
        xsk.setsockopt(abi.SOL_XDP, option, entries)
    except OSError as error:
        raise KernelError(
            f"making a ring of {entries} entries", error.errno or 0, "Ask for a smaller ring"
        ) from None


def read_offsets(xsk: socket.socket) -> MmapOffsets:
    """Where the parts of each ring lie in its mapping."""
    raw = xsk.getsockopt(abi.SOL_XDP, abi.XDP_MMAP_OFFSETS, 128)
    if len(raw) < 128:
        raise MissingFeatureError(
            "XDP_RING_NEED_WAKEUP",
            "mapping the rings of an AF_XDP socket failed: this kernel's rings have no flags. "
            "Linux 5.4 or newer is needed",
        )
    return MmapOffsets.parse(raw)


def bind(
    xsk: socket.socket,
    interface: str,
    ifindex: int,
    queue: int,
    flags: int,
    shared_fd: int,
    patience_s: float,
) -> None:
    """Bind to an interface's queue, again while it is busy, for `patience_s` seconds."""
    address = abi.SockaddrXdp(
        family=abi.AF_XDP,
        flags=flags,
        ifindex=ifindex,
        queue_id=queue,
        shared_umem_fd=shared_fd,
    )
    until = time.monotonic() + patience_s
    while _libc.bind(xsk.fileno(), ctypes.byref(address), ctypes.sizeof(address)) < 0:
        number = ctypes.get_errno()
        if number not in {errno.EBUSY, errno.EINTR} or time.monotonic() > until:
            raise _why_not_bound(interface, queue, flags, number)
        time.sleep(_RELEASE_S)


def _why_not_bound(interface: str, queue: int, flags: int, number: int) -> Exception:
    tried = f"binding an AF_XDP socket to queue {queue} of {interface}"
    name = errno.errorcode.get(number, str(number))
    if number == errno.EINVAL:
        queues = ethtool.queue_count(interface)
        if queues is not None and queue >= queues:
            which = "only queue 0" if queues == 1 else f"queues 0 to {queues - 1}"
            return UsageError(
                f"{tried} failed ({name}): the interface has {which}. Name such a one"
            )
        if flags & abi.XDP_USE_SG:
            return MissingFeatureError(
                "XDP_USE_SG",
                f"{tried} failed ({name}): this kernel, or this driver with zero-copy, does not "
                "take packets of several frames. Open the socket without frags",
            )
        if queues is None and queue > 0:
            return UsageError(
                f"{tried} failed ({name}): the interface seems to have fewer queues, of which its "
                "driver does not tell. Try queue 0"
            )
    if number == errno.EBUSY:
        return NotPossibleError(
            f"{tried} failed ({name}): another AF_XDP socket has that queue, or a memory provider "
            "does. End its process, or choose another queue"
        )
    if number == errno.EOPNOTSUPP and flags & abi.XDP_ZEROCOPY:
        return NotPossibleError(
            f"{tried} failed ({name}): its driver has no zero-copy mode for AF_XDP. Use copy mode"
        )
    remedies: Mapping[int, str] = {
        errno.ENODEV: "The interface is gone; look at `ip link`",
        errno.ENETDOWN: f"The interface is down: ip link set {interface} up",
    }
    return KernelError(tried, number, remedies.get(number, ""))
