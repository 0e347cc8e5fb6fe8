"""What each live command runs: the shipped object, its constants, its maps."""

from __future__ import annotations

import errno
import struct
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal

from xdplab.errors import KernelError, UsageError
from xdplab.kernel import bpf
from xdplab.kernel.libbpf import LoadedObject
from xdplab.live.choices import (
    CPU_CHOICES,
    OPERATIONS,
    Access,
    CpuChoice,
    Egress,
    Operation,
    RemoteAction,
)
from xdplab.live.readings import ACTIONS
from xdplab.live.session import Plan
from xdplab.live.traces import INTERFACES_AT_MOST
from xdplab.net.interface import Interface

if TYPE_CHECKING:
    from xdplab.live.consumer import XskConsumer

_TARGETS = 256
_SWAP = OPERATIONS.index("swap-macs")


def basic(
    command: Literal["drop", "pass", "tx"],
    interface: Interface,
    operation: Operation,
    access: Access,
    *,
    by_queue: bool,
) -> Plan:
    """`drop`, `pass` and `tx`: one action for every packet of an interface."""
    sends = command == "tx"
    return Plan(
        command=command,
        object="live",
        constants={
            "action": ACTIONS.index(f"XDP_{command.upper()}"),
            "operation": OPERATIONS.index(operation),
            "by_calls": access == "load-bytes",
            "count_queues": by_queue,
        },
        interfaces=(interface,),
        sends_by=(interface,) if sends else (),
        events=("xdp_exception", "xdp_bulk_tx") if sends else ("xdp_exception",),
    )


def redirect(source: Interface, to: Interface, access: Access, *, successes: bool) -> Plan:
    """`redirect`: to one interface by bpf_redirect(), MAC addresses swapped."""
    return Plan(
        command="redirect",
        object="live",
        constants={
            "action": ACTIONS.index("XDP_REDIRECT"),
            "out_ifindex": to.ifindex,
            "operation": _SWAP,
            "by_calls": access == "load-bytes",
        },
        interfaces=(source,),
        sends_by=(to,),
        events=_redirect_events(successes),
    )


def redirect_map(
    source: Interface, to: Interface, egress: Egress | None, *, successes: bool
) -> Plan:
    """`redirect-map`: to one interface by way of a devmap, MAC addresses swapped."""
    return Plan(
        command="redirect-map",
        object="live_map",
        constants={"operation": _SWAP, "egress_drops": egress == "drop"},
        interfaces=(source,),
        sends_by=(to,),
        events=_redirect_events(successes),
        behind="xdplab_egress" if egress else None,
        fill=_fill_devmap([to]),
    )


def redirect_multi(
    interfaces: Sequence[Interface], egress: Egress | None, *, successes: bool
) -> Plan:
    """`redirect-multi`: from each interface to all the others, by a devmap's broadcast.

    UsageError for fewer than two, or more than a devmap's program can tell apart.
    """
    if len({one.ifindex for one in interfaces}) != len(interfaces):
        raise UsageError("redirect-multi was given an interface twice; name each once")
    if not 2 <= len(interfaces) <= INTERFACES_AT_MOST:
        raise UsageError(
            f"redirect-multi was given {len(interfaces)} interfaces; it takes 2 to "
            f"{INTERFACES_AT_MOST}, and sends what comes in at one out of all others"
        )
    return Plan(
        command="redirect-multi",
        object="live_map",
        constants={"to_all": True, "egress_drops": egress == "drop"},
        interfaces=tuple(interfaces),
        sends_by=tuple(interfaces),
        events=_redirect_events(successes),
        behind="xdplab_egress" if egress else None,
        # What a program in the devmap drops was sent nowhere either, and is counted by itself.
        copies=0 if egress == "drop" else len(interfaces) - 1,
        fill=_fill_devmap(interfaces),
    )


def redirect_cpu(
    source: Interface,
    cpus: Sequence[int],
    choice: CpuChoice,
    remote: RemoteAction,
    to: Interface | None,
    queue_packets: int,
    *,
    successes: bool,
) -> Plan:
    """`redirect-cpu`: to CPUs of a list by way of a cpumap, each with a queue of that length.

    `remote` is done there; `to` is where its "redirect" sends to. UsageError where the list
    has a CPU that this machine has not, or is too long.
    """
    possible = bpf.possible_cpus()
    for cpu in cpus:
        if cpu >= possible:
            raise UsageError(
                f"redirect-cpu was given CPU {cpu}; this machine's are 0 to {possible - 1}"
            )
    if not 1 <= len(cpus) <= _TARGETS:
        raise UsageError(f"redirect-cpu was given {len(cpus)} CPUs; it takes 1 to {_TARGETS}")
    events = _redirect_events(successes) if to else _redirect_events(successes)[:-1]
    return Plan(
        command="redirect-cpu",
        object="live_cpu",
        constants={
            "choice": CPU_CHOICES.index(choice),
            "target_count": len(cpus),
            "target_cpu": struct.pack(f"<{_TARGETS}I", *cpus, *[0] * (_TARGETS - len(cpus))),
            "remote_action": ACTIONS.index(
                f"XDP_{remote.upper()}" if remote != "disabled" else "XDP_PASS"
            ),
            "out_address": to.mac.ljust(8, b"\0") if to else bytes(8),
        },
        interfaces=(source,),
        sends_by=(to,) if to else (),
        events=(*events, "xdp_cpumap_enqueue", "xdp_cpumap_kthread"),
        behind="xdplab_remote" if remote != "disabled" else None,
        map_sizes={"cpus": (8, possible)},
        fill=_fill_cpumap(cpus, queue_packets, to),
        cpumap="cpus",
    )


def xsk(command: Literal["xsk-drop", "xsk-tx"], interface: Interface, socket: XskConsumer) -> Plan:
    """`xsk-drop` and `xsk-tx`: to an AF_XDP socket of this process, for packets of its queue."""
    return Plan(
        command=command,
        object="live_xsk",
        constants={},
        interfaces=(interface,),
        events=("xdp_exception", "xdp_redirect_err"),
        consumer=socket,
    )


def _redirect_events(successes: bool) -> tuple[str, ...]:
    # A successful redirect is reported packet by packet, which costs each of them.
    counted = ("xdp_redirect",) if successes else ()
    return (*counted, "xdp_exception", "xdp_redirect_err", "xdp_devmap_xmit")


def _fill_devmap(interfaces: Sequence[Interface]) -> Callable[[LoadedObject, int | None], None]:
    def fill(loaded: LoadedObject, egress: int | None) -> None:
        for place, interface in enumerate(interfaces):
            # struct bpf_devmap_val: ifindex, then the fd of its program or 0.
            value = struct.pack("<II", interface.ifindex, egress or 0)
            _update(loaded, "targets", place, value, f"redirecting to {interface.name}")
            address = interface.mac[:6].ljust(8, b"\0")
            _update(loaded, "addresses", interface.ifindex, address, "noting a MAC address")

    return fill


def _fill_cpumap(
    cpus: Sequence[int], queue_packets: int, to: Interface | None
) -> Callable[[LoadedObject, int | None], None]:
    def fill(loaded: LoadedObject, remote: int | None) -> None:
        for cpu in dict.fromkeys(cpus):
            # struct bpf_cpumap_val: the queue's length, then the fd of its program or 0.
            value = struct.pack("<II", queue_packets, remote or 0)
            _update(loaded, "cpus", cpu, value, f"a queue of {queue_packets} packets on CPU {cpu}")
        if to is not None:
            value = struct.pack("<II", to.ifindex, 0)
            _update(loaded, "out", 0, value, f"redirecting to {to.name}")

    return fill


def _update(loaded: LoadedObject, name: str, key: int, value: bytes, tried: str) -> None:
    try:
        bpf.map_update(loaded.maps[name], struct.pack("<I", key), value)
    except OSError as error:
        number = error.errno or 0
        remedy = "The kernel takes 1 to 16384 packets" if number == errno.EOVERFLOW else ""
        raise KernelError(tried, number, remedy) from None
