"""An XDP program that redirects packets to AF_XDP sockets, attached for as long as it is held."""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from xdplab.errors import KernelError, NotPossibleError, UsageError
from xdplab.kernel import bpf
from xdplab.kernel.libbpf import LoadedObject
from xdplab.net.xsk.closing import Closing
from xdplab.net.xsk.opening import interface_index
from xdplab.program import ObjectSpec
from xdplab.program.shipped import shipped_object

if TYPE_CHECKING:
    from xdplab.net.xsk.socket import Xsk

ProgramMode = Literal["native", "generic"]
"""In the driver, or in the stack behind it."""

_FLAGS = {"native": bpf.XDP_FLAGS_DRV_MODE, "generic": bpf.XDP_FLAGS_SKB_MODE}
_XSKMAP = 17


class XskProgram(Closing):
    """The package's own program on an interface, or one of the caller's; sockets join by `add`.

    Its own redirects each packet to the socket of the packet's queue, and passes it to the stack
    where the queue has none. With `sealed` it seals what earlier programs left as metadata, so
    that sockets with metadata="sealed" can read it. `frags` takes packets of several buffers.

    `spec` and `name` choose another program, `map` names its xskmap (an entry a queue), and
    `constants` sets its `.rodata`. Then `frags` and `sealed` are the program's own matter.

    The program hangs on a bpf_link of this process alone: it goes by `close()`, or with the
    process. Raises UsageError, NotPossibleError (a missing right, another program on the interface,
    a driver without native mode), VerifierError, KernelError.
    """

    def __init__(
        self,
        interface: str,
        *,
        mode: ProgramMode = "native",
        frags: bool = False,
        sealed: bool = False,
        spec: ObjectSpec | None = None,
        name: str = "",
        map: str = "xsks",
        constants: Mapping[str, int | bytes] | None = None,
    ) -> None:
        self.interface = interface
        if mode not in _FLAGS:
            raise UsageError(f"mode {mode!r} was asked for; there are {' and '.join(_FLAGS)}")
        if spec is None:
            spec = shipped_object("xsk")
            name = ("sealing" if sealed else "redirecting") + ("_frags" if frags else "")
        self.ifindex = interface_index(interface)
        self._link = -1
        self._loaded = LoadedObject(spec, (name,), constants)
        try:
            self._map = self._loaded.maps.get(map, -1)
            known = spec.maps.get(map)
            if known is None or known.type != _XSKMAP:
                raise UsageError(
                    f"attaching {name} of {spec.name} failed: it has no xskmap named {map!r}. "
                    "Declare a map of type BPF_MAP_TYPE_XSKMAP, and name it"
                )
            self._entries = known.max_entries
            self._attach(name, mode)
        except BaseException:
            self.close()
            raise

    def _attach(self, name: str, mode: str) -> None:
        tried = f"attaching {name} to {self.interface} in {mode} mode"
        try:
            self._link = bpf.link_create_xdp(self._loaded.prog_fd(name), self.ifindex, _FLAGS[mode])
        except OSError as error:
            raise _why_not_attached(tried, self.interface, error.errno or 0) from None

    def add(self, xsk: Xsk) -> None:
        """Have packets of the socket's queue redirected to it."""
        if xsk.queue >= self._entries:
            raise UsageError(
                f"redirecting queue {xsk.queue} of {self.interface} failed: the program's xskmap "
                f"has {self._entries} entries. Give it more"
            )
        try:
            bpf.map_update(self._map, struct.pack("=I", xsk.queue), struct.pack("=I", xsk.fileno()))
        except OSError as error:
            raise KernelError(
                f"putting the socket of queue {xsk.queue} into the xskmap of {self.interface}",
                error.errno or 0,
            ) from None

    def close(self) -> None:
        """Detach and unload. Sockets stay, and receive nothing any more."""
        if self._link >= 0:
            os.close(self._link)
            self._link = -1
        self._loaded.close()


def _why_not_attached(tried: str, interface: str, number: int) -> Exception:
    name = errno.errorcode.get(number, str(number))
    if number in {errno.EBUSY, errno.EEXIST}:
        return NotPossibleError(
            f"{tried} failed ({name}): the interface has an XDP program already, and none is "
            f"replaced. End its process, or detach it: ip link set dev {interface} xdp off"
        )
    if number in {errno.EPERM, errno.EACCES}:
        return NotPossibleError(
            f"{tried} was refused ({name}): it takes CAP_NET_ADMIN and CAP_BPF. Run as root"
        )
    if number in {errno.EOPNOTSUPP, errno.ERANGE, errno.EINVAL}:
        return NotPossibleError(
            f"{tried} failed ({name}): the driver does not take it so. Where the MTU is larger "
            'than a page, frags=True is needed; where there is no native XDP, mode "generic"'
        )
    return KernelError(tried, number)
