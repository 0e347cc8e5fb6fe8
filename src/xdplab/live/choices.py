"""What a user may choose, in xdp-bench's words. Light: the command line reads it for its help."""

from __future__ import annotations

from typing import Literal, get_args

Mode = Literal["native", "skb"]
MODES: tuple[Mode, ...] = get_args(Mode)
"""Where a program runs: in the driver, or behind it (generic)."""

Operation = Literal["no-touch", "read-data", "parse-ip", "swap-macs"]
OPERATIONS: tuple[Operation, ...] = get_args(Operation)
"""What may be done to a packet first; the order of live.bpf.h."""

Access = Literal["dpa", "load-bytes"]
ACCESSES: tuple[Access, ...] = get_args(Access)
"""How a packet is read and written: directly, or by bpf_xdp_load_bytes and _store_bytes."""

Egress = Literal["forward", "drop"]
EGRESSES: tuple[Egress, ...] = get_args(Egress)
"""What a devmap's program does before a packet leaves: write its source address, or drop it."""

CpuChoice = Literal[
    "no-touch", "touch", "round-robin", "l4-proto", "l4-filter", "l4-hash", "l4-sport", "l4-dport"
]
CPU_CHOICES: tuple[CpuChoice, ...] = get_args(CpuChoice)
"""How redirect-cpu chooses among its CPUs; the order of live_cpu.bpf.c."""

RemoteAction = Literal["disabled", "drop", "pass", "redirect"]
REMOTE_ACTIONS: tuple[RemoteAction, ...] = get_args(RemoteAction)
"""What a program does on the CPU that a packet was sent to; disabled: there is none."""

CopyMode = Literal["auto", "copy", "zero-copy"]
COPY_MODES: tuple[CopyMode, ...] = get_args(CopyMode)
"""Whether an AF_XDP socket's packets are copied into its memory; auto: the kernel chooses."""
