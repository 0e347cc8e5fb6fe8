"""What each live command runs: the shipped object, its constants, its maps."""

from __future__ import annotations

from typing import Literal

from xdplab.live.readings import ACTIONS
from xdplab.live.session import Plan
from xdplab.net.interface import Interface

Operation = Literal["no-touch", "read-data", "parse-ip", "swap-macs"]
OPERATIONS: tuple[Operation, ...] = ("no-touch", "read-data", "parse-ip", "swap-macs")
"""What may be done to a packet first, as xdp-bench names it; the order of live.bpf.h."""

Access = Literal["dpa", "load-bytes"]
ACCESSES: tuple[Access, ...] = ("dpa", "load-bytes")
"""How a packet is read and written: directly, or by bpf_xdp_load_bytes and _store_bytes."""


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
