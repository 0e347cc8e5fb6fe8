"""A guest's console read back: the runner's lines among the kernel's.

What a guest says is untrusted like any file: a line that is damaged ends the reading with a
sentence, never with a figure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from xdplab.errors import XdplabError

PREFIX = "@xdplab "
_TAIL_LINES = 6
_PANIC = re.compile(r"Kernel panic - not syncing: (.*)")
_STAMP = re.compile(r"^(\[ *\d+\.\d+\] )+")
_ENOSYS = 38


class GuestError(XdplabError):
    """A guest did not do what it was booted for; the message has the end of its console."""

    exit_code = 3


@dataclass(frozen=True, slots=True)
class RowReport:
    """What the runner says of one row: `ns` a value a call, empty where it did not do its work.

    `errno` is 0 where test runs went through; `value` what was asked for behind the run; `windows`
    how many pairs of windows it was profiled in.
    """

    ns: tuple[int, ...]
    retval: int
    errno: int = 0
    value: bytes | None = None
    windows: int = 0


@dataclass(frozen=True, slots=True)
class GuestReport:
    """All that a guest said. `progs` and `maps` have the reasons of those that are not there;
    `functions` are the kernel's, address and name, where they were asked for."""

    release: str
    version: str
    machine: str
    facts: Mapping[str, Any]
    mitigations: Mapping[str, str]
    rows: Mapping[int, RowReport] = field(default_factory=dict)
    progs: Mapping[int, str] = field(default_factory=dict)
    maps: Mapping[int, int] = field(default_factory=dict)
    functions: Sequence[tuple[int, str]] = ()


def read_console(text: str, kernel: str) -> GuestReport:
    """The report that a console holds; `kernel` names it in messages.

    GuestError where the guest never came to its rows, did not come to their end, or what it said
    is damaged.
    """
    said = [
        (number, json_line)
        for number, line in enumerate(text.splitlines(), 1)
        for json_line in [line.strip("\r").partition(PREFIX)[2]]
        if PREFIX in line
    ]
    records = [_record(line, number, text, kernel) for number, line in said]
    if not records or "guest" not in records[0]:
        raise GuestError(_never_began(text, kernel))
    guest = records[0]
    if guest.get("bpf") == _ENOSYS:
        raise GuestError(
            f"{kernel} ({guest.get('release')}) has no bpf(2): it was built without "
            "CONFIG_BPF_SYSCALL. Set it, and CONFIG_BPF_JIT, and build it again"
        )
    if "end" not in records[-1]:
        raise GuestError(_ended_early(text, kernel, sum("row" in one for one in records)))
    try:
        return GuestReport(
            release=str(guest["release"]),
            version=str(guest["version"]),
            machine=str(guest["machine"]),
            facts=guest,
            mitigations={
                str(one["name"]): str(one["state"])
                for one in records
                if "vulnerability" in one and "state" in one
            },
            rows={int(one["row"]): _row(one) for one in records if "row" in one},
            progs={int(one["prog"]): _why_not(one) for one in records if "prog" in one},
            maps={int(one["map"]): int(one["errno"]) for one in records if "map" in one},
            functions=[
                (int(address, 16), name.strip())
                for one in records
                if "symbols" in one
                for address, _, name in (
                    symbol.partition(" ") for symbol in str(one["text"]).splitlines()
                )
            ],
        )
    except (KeyError, TypeError, ValueError) as error:
        raise GuestError(
            f"reading what {kernel} said failed: {error!r} in the runner's lines.{tail(text)}"
        ) from None


def tail(text: str) -> str:
    """The last lines of a console for a message, "" where it said nothing."""
    lines = [_STAMP.sub("", line).strip() for line in text.splitlines()]
    last = [
        "".join(c for c in line if c.isprintable())[:200]
        for line in lines
        if line and PREFIX not in line
    ][-_TAIL_LINES:]
    return " Its console's last lines:\n  " + "\n  ".join(last) if last else ""


def _record(line: str, number: int, text: str, kernel: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise GuestError(
            f"reading what {kernel} said failed: line {number} of its console is damaged, "
            f"{line[:80]!r}. Boot it again; where it happens again, add `quiet` by --append"
            f"{tail(text)}"
        )
    return found


def _row(one: Mapping[str, Any]) -> RowReport:
    value = one.get("value")
    return RowReport(
        ns=tuple(int(ns) for ns in one.get("ns", ())),
        retval=int(one["retval"]),
        errno=int(one.get("errno", 0)),
        value=None if value is None else bytes.fromhex(value),
        windows=int(one.get("windows", 0)),
    )


def _why_not(one: Mapping[str, Any]) -> str:
    if "lacks" in one:
        return f"this kernel lacks {one['lacks']}"
    log = [line for line in str(one.get("log", "")).split("\n") if line.strip()]
    reasons: Sequence[str] = [line for line in log if not line.startswith("processed ")]
    said = f": {reasons[-1].strip()}" if reasons else ""
    return f"this kernel's verifier refuses it (errno {int(one['errno'])}){said}"


def _never_began(text: str, kernel: str) -> str:
    panic = _PANIC.search(text)
    if panic:
        why = panic[1].strip().rstrip(".")
        return f"{kernel} panicked before its first program: {why}.{tail(text)}"
    if not text.strip():
        return (
            f"{kernel} said nothing at all. Is it an x86-64 kernel (bzImage) with a serial "
            "console (CONFIG_SERIAL_8250_CONSOLE)?"
        )
    return (
        f"{kernel} ended before its first program. Does it have CONFIG_BLK_DEV_INITRD, "
        f"CONFIG_RD_GZIP and CONFIG_BINFMT_ELF?{tail(text)}"
    )


def _ended_early(text: str, kernel: str, rows: int) -> str:
    panic = _PANIC.search(text)
    why = f"panicked: {panic[1].strip()}" if panic else "ended"
    return f"{kernel} {why}, after {rows} rows.{tail(text)}"
