"""Generators that are BPF programs: `frames`, live frames of XDP, and `skb`, clones of an skb.

`frames`: an XDP program that redirects to the outlet, given a frame again and again by a test run
with live frames: no skb, what a driver's receive loop forwards. A test run rewrites the dispatcher
of XDP programs unless the program is attached somewhere, 20 ms a call; so it is attached, to lo of
a namespace of its own. Then a call costs some 10 us, and a generator is a loop of finite calls,
which count exactly and end by themselves: no endless call that a signal has to end.

`skb`: a classifier that sends clones of its skb, 64 a run. Every packet is an skb of its own
with a head of its own, as a stack would send it: the stand-in for the kernel's pktgen.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Mapping
from types import TracebackType
from typing import TypeGuard

from xdplab.errors import KernelError, NotPossibleError
from xdplab.kernel import bpf
from xdplab.kernel.libbpf import LoadedObject
from xdplab.kernel.namespace import LOOPBACK_IFINDEX, NetworkNamespace
from xdplab.kernel.testrun import TestRun
from xdplab.net.events import namespace_cookie
from xdplab.net.generators.base import MADE_UP_S, Outlet, Sent
from xdplab.packets.traffic import UDP, Captured, Flows, Traffic
from xdplab.program.shipped import shipped_object

MAXIMUM_LIVE_BYTES = 3400
"""A live frame lies in one page of 4 KiB, with the headroom and what the kernel keeps behind."""

BATCH = 128
"""Live frames at a time: two turns of NAPI, and half of veth's ring, which then never overflows
while NAPI runs on the same CPU. 64 cost two percent more, 256 lost packets."""

_MOST_BURST = 64
"""generate.bpf.c, MAX_BURST."""

_HEADER_BYTES = 96


class FramesGenerator:
    """Live XDP frames; see the module. `batch_size` of them go at a time (1 to 256).

    Without `count_refused` nobody counts what the outlet does not take: for whoever counts at the
    other end, and to send into several namespaces whose outlets have the same ifindex.
    """

    name = "frames"
    chunk = 1 << 17
    made_up_s = MADE_UP_S

    def __init__(
        self,
        outlet: Outlet,
        traffic: Traffic,
        batch_size: int = BATCH,
        count_refused: bool = True,
    ) -> None:
        if traffic.longest_bytes > MAXIMUM_LIVE_BYTES:
            raise NotPossibleError(
                f"the generator frames cannot send {traffic.longest_bytes} bytes: live frames "
                f"have up to {MAXIMUM_LIVE_BYTES}. Take the generator ring, or smaller frames"
            )
        self._exit = contextlib.ExitStack()
        try:
            program = "frames_of_capture" if _needs_capture(traffic) else "frames"
            self._object = _load(self._exit, program, outlet, traffic)
            fd = self._object.prog_fd(program)
            namespace = NetworkNamespace()
            self._exit.callback(namespace.close)
            with namespace:
                link = bpf.link_create_xdp(fd, LOOPBACK_IFINDEX, bpf.XDP_FLAGS_SKB_MODE)
            self._exit.callback(os.close, link)
            self._run = TestRun(fd, traffic.frame(0), batch_size=batch_size)
            self._refusals: _Refusals | None = None
            if count_refused:
                self._refusals = _Refusals(outlet)
                self._exit.callback(self._refusals.close)
            self._generated = self._object.memory_of("generated")
        except BaseException:
            self.close()
            raise

    def burst(self, packets: int) -> None:
        """As Generator.burst. KernelError where live frames are refused."""
        left = packets
        while left:
            before = int.from_bytes(self._generated, "little")
            try:
                if self._run.attempt(left):
                    return
            except OSError as error:
                raise _cannot_run("sending live frames", error) from None
            left -= int.from_bytes(self._generated, "little") - before

    def sent(self) -> Sent:
        """What the program made, less what the kernel's tracepoints say was not taken."""
        refused = self._refusals.count if self._refusals else 0
        return Sent(int.from_bytes(self._generated, "little"), refused)

    @property
    def last_error(self) -> int:
        """The errno by which the interface refused frames last; 0 where it took all."""
        return self._refusals.last_error if self._refusals else 0

    def close(self) -> None:
        self._exit.close()

    def __enter__(self) -> FramesGenerator:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


class SkbGenerator:
    """Clones of an skb; see the module."""

    name = "skb"
    chunk = 1 << 13
    made_up_s = MADE_UP_S

    def __init__(self, outlet: Outlet, traffic: Traffic) -> None:
        if traffic.longest_bytes > MAXIMUM_LIVE_BYTES:
            raise NotPossibleError(
                f"the generator skb cannot send {traffic.longest_bytes} bytes: a test run's linear "
                f"skb has up to {MAXIMUM_LIVE_BYTES}. Take the generator ring, or smaller frames"
            )
        self._exit = contextlib.ExitStack()
        try:
            program = "skbs_of_capture" if _needs_capture(traffic) else "skbs"
            self._object = _load(self._exit, program, outlet, traffic)
            self._run = TestRun(self._object.prog_fd(program), traffic.frame(0))
            self._burst = self._object.memory_of("burst")
            self._generated = self._object.memory_of("generated")
            self._refused = self._object.memory_of("refused")
        except BaseException:
            self.close()
            raise

    def burst(self, packets: int) -> None:
        """As Generator.burst."""
        target = int.from_bytes(self._generated, "little") + packets
        while left := target - int.from_bytes(self._generated, "little"):
            size = min(left, _MOST_BURST)
            self._burst.raw = size.to_bytes(4, "little")
            before = left
            try:
                whole = self._run.attempt(left // size)
            except OSError as error:
                raise _cannot_run("sending clones of an skb", error) from None
            after = target - int.from_bytes(self._generated, "little")
            if whole and after == before:
                raise KernelError("sending clones of an skb", errno.EINVAL, "none was made")

    def sent(self) -> Sent:
        """What the program made, less the clones whose sending returned an error."""
        return Sent(
            int.from_bytes(self._generated, "little"), int.from_bytes(self._refused, "little")
        )

    def close(self) -> None:
        self._exit.close()

    def __enter__(self) -> SkbGenerator:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


class _Refusals:
    """Counts redirected frames that an outlet did not take, by the kernel's tracepoints."""

    def __init__(self, outlet: Outlet) -> None:
        self._exit = contextlib.ExitStack()
        constants: dict[str, int | bytes] = {
            "cookie": namespace_cookie(outlet.namespace_fd),
            "out_ifindex": outlet.ifindex,
        }
        try:
            self._object = LoadedObject(shipped_object("refused"), constants=constants)
            self._exit.callback(self._object.close)
            for name, tracepoint in (
                ("not_sent", "xdp_devmap_xmit"),
                ("not_redirected", "xdp_redirect_err"),
            ):
                with contextlib.suppress(FileNotFoundError):
                    link = bpf.raw_tracepoint_open(tracepoint, self._object.prog_fd(name))
                    self._exit.callback(os.close, link)
        except BaseException:
            self.close()
            raise

    @property
    def count(self) -> int:
        return int(self._object.read("refused"))

    @property
    def last_error(self) -> int:
        return -int(self._object.read("last_error"))

    def close(self) -> None:
        self._exit.close()


def _load(
    exit_stack: contextlib.ExitStack, program: str, outlet: Outlet, traffic: Traffic
) -> LoadedObject:
    constants = {"out_ifindex": outlet.ifindex, **_constants(traffic)}
    sizes = {}
    if _needs_capture(traffic):
        value_bytes = (4 + traffic.longest_bytes + 7) // 8 * 8
        sizes["capture"] = (value_bytes, traffic.count)
    loaded = LoadedObject(shipped_object("generate"), (program,), constants, sizes)
    exit_stack.callback(loaded.close)
    if _needs_capture(traffic):
        for index, frame in enumerate(traffic.frames):
            value = (len(frame).to_bytes(4, "little") + frame).ljust(value_bytes, b"\0")
            bpf.map_update(loaded.maps["capture"], index.to_bytes(4, "little"), value)
    return loaded


def _needs_capture(traffic: Traffic) -> TypeGuard[Captured]:
    """Whether frames differ in more than their flows. A capture of one frame is a flow of one."""
    return isinstance(traffic, Captured) and traffic.count > 1


def _constants(traffic: Traffic) -> Mapping[str, int | bytes]:
    """What generate.bpf.c has to know before it is loaded, by the names of its variables."""

    def words(*values: int) -> bytes:
        return b"".join(value.to_bytes(4, "little") for value in values)

    if _needs_capture(traffic):
        return {"captured_frames": traffic.count, "captured_bytes": traffic.longest_bytes}
    # Of flows the headers alone, in whole words; of what lies behind them nothing is known.
    restored_bytes = _HEADER_BYTES
    if isinstance(traffic, Flows):
        restored_bytes = -(-traffic.header_bytes // 8) * 8
    header = traffic.frame(0)[:restored_bytes]
    fixed: dict[str, int | bytes] = {
        "header": header.ljust(_HEADER_BYTES, b"\0"),
        "header_bytes": len(header),
        "header_tail": int.from_bytes(header[-8:], "little"),
    }
    if isinstance(traffic, Captured):
        return fixed
    ip_sum, total = traffic.sums
    return fixed | {
        "first": words(*(field.span.first for field in traffic.fields)),
        "count": words(*(field.span.count for field in traffic.fields)),
        "offset": words(*(field.offset for field in traffic.fields)),
        "varies": traffic.count > 1,
        "ip_checksum_offset": traffic.ip_checksum_offset,
        "ip_sum": ip_sum,
        "checksum_offset": traffic.checksum_offset,
        "sum": total,
        "checksum_never_zero": traffic.protocol == UDP,
    }


def _cannot_run(tried: str, error: OSError) -> KernelError:
    return KernelError(
        tried, error.errno or 0, "It takes Linux 5.18, and frames of 14 bytes to 3400"
    )
