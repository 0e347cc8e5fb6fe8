"""The generator `pktgen`: the kernel's own, where the kernel has it.

It is driven by files of /proc (Documentation/networking/pktgen.rst), which show the network
namespace of who opens them. What it sends are UDP packets of flows; "start" returns when all are
sent. Unlike everything else of xdplab its settings are not held by a descriptor: the interface
stays on its list until `close`, or until the namespace goes.
"""

from __future__ import annotations

import errno
import ipaddress
import os
import re
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

from xdplab.errors import KernelError, NotPossibleError
from xdplab.net.generators.base import Outlet, Sent
from xdplab.packets.traffic import UDP, Flows, Span, Traffic

PROC = Path("/proc/thread-self/net/pktgen")

_RESULT = re.compile(r"Result: (\w+):")
_SENT = re.compile(r"pkts-sofar: (\d+)\s+errors: (\d+)")


class PktgenGenerator:
    """The kernel's pktgen; see the module.

    `directory` is where its files are. NotPossibleError where the kernel has none, and for
    traffic that it cannot make.
    """

    name = "pktgen"
    # "start" takes an eighth of a second before it sends: a burst must be worth that.
    chunk = 1 << 21
    made_up_s = 1.0

    def __init__(self, outlet: Outlet, traffic: Traffic, directory: Path = PROC) -> None:
        if not isinstance(traffic, Flows) or traffic.protocol != UDP:
            raise NotPossibleError(
                "the generator pktgen sends UDP packets of flows, no TCP and no captures. Take the "
                "generator frames, skb or ring"
            )
        self._directory = directory
        self._outlet = outlet
        self._generated = 0
        self._refused = 0
        cpu = min(os.sched_getaffinity(0))
        self._thread = directory / f"kpktgend_{cpu}"
        self._device = directory / outlet.name
        with outlet.inside():
            if not self._thread.exists():
                raise NotPossibleError(
                    "the generator pktgen needs a kernel with pktgen (CONFIG_NET_PKTGEN), which "
                    "shows itself in /proc/net/pktgen. Load it (modprobe pktgen), or take the "
                    "generator skb, which sends skbs as it does"
                )
            self._write(self._thread, f"add_device {outlet.name}")
            try:
                for command in commands(traffic):
                    self._write(self._device, command)
            except BaseException:
                self.close()
                raise

    def _write(self, path: Path, command: str) -> None:
        try:
            # Its parser wants the line's end.
            path.write_text(f"{command}\n")
        except OSError as error:
            raise KernelError(
                f"telling pktgen {command!r} for {self._outlet.name}", error.errno or 0
            ) from None

    def burst(self, packets: int) -> None:
        """As Generator.burst."""
        self._write(self._device, f"count {packets}")
        self._write(self._directory / "pgctrl", "start")
        text = self._device.read_text()
        sent, result = _SENT.search(text), _RESULT.search(text)
        if sent is None or result is None or result[1] != "OK":
            raise KernelError("sending by pktgen", errno.EIO, f"It says: {text.strip()[-200:]}")
        self._generated += int(sent[1]) + int(sent[2])
        self._refused += int(sent[2])

    def sent(self) -> Sent:
        """What pktgen says that it sent, and as errors what the interface did not take."""
        return Sent(self._generated, self._refused)

    def close(self) -> None:
        """Take the interface off pktgen's list."""
        with self._outlet.inside():
            self._write(self._thread, "rem_device_all")

    def __enter__(self) -> PktgenGenerator:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def commands(traffic: Flows) -> Iterator[str]:
    """What the interface's file is told, a command a line.

    Every packet gets an skb of its own (clone_skb 0), as fast as possible (delay 0).
    """
    yield "clone_skb 0"
    yield "delay 0"
    yield f"pkt_size {traffic.frame_bytes}"
    yield f"src_mac {traffic.source_mac}"
    yield f"dst_mac {traffic.destination_mac}"
    if traffic.vlans:
        yield f"vlan_id {traffic.vlans[-1]}"
    if len(traffic.vlans) > 1:
        yield f"svlan_id {traffic.vlans[0]}"
    yield from _addresses(traffic)
    for field, span in (("udp_src", traffic.source_port), ("udp_dst", traffic.destination_port)):
        yield f"{field}_min {span.first}"
        # The largest is left out of the range, unless both are the same.
        end = span.first + span.count * (span.count > 1)
        yield f"{field}_max {min(end, 65535)}"


def _addresses(traffic: Flows) -> Iterator[str]:
    def text(number: int) -> str:
        kind = ipaddress.IPv6Address if traffic.ipv6 else ipaddress.IPv4Address
        return str(kind(number))

    def last(span: Span) -> str:
        return text(span.first + span.count - 1)

    if not traffic.ipv6:
        yield f"src_min {text(traffic.source.first)}"
        yield f"src_max {last(traffic.source)}"
        yield f"dst_min {text(traffic.destination.first)}"
        yield f"dst_max {last(traffic.destination)}"
        return
    if traffic.source.count > 1:
        raise NotPossibleError(
            "the generator pktgen has one IPv6 source address, no range. Take the generator skb"
        )
    yield f"src6 {text(traffic.source.first)}"
    yield f"dst6_min {text(traffic.destination.first)}"
    yield f"dst6_max {last(traffic.destination)}"
