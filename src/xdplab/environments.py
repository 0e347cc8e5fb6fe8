"""What of two runs' environments would make figures differ although nothing was changed. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from xdplab.records import Document

_FACTS = (
    ("CPU", ("cpu", "model")),
    ("CPU stepping", ("cpu", "stepping")),
    ("microcode", ("cpu", "microcode")),
    ("kernel", ("kernel", "release")),
    ("kernel build", ("kernel", "version")),
    ("architecture", ("kernel", "machine")),
    ("JIT", ("jit",)),
    ("SMT", ("smt", "active")),
    ("governor", ("governor",)),
    ("turbo", ("turbo", "on")),
    ("mitigations", ("mitigations",)),
    ("virtual machine", ("virtualisation", "hypervisor")),
    ("programs built by", ("compiler",)),
    ("QEMU", ("guest", "qemu")),
    ("guest's CPU model", ("guest", "cpu")),
    ("guest's command line", ("guest", "command_line")),
)

_TOLD = (
    ("libbpf", ("libbpf",)),
    ("clock source", ("clocksource",)),
    ("CPU used", ("cpu", "pinned")),
    ("Python", ("python",)),
)
"""What is worth telling, and moves no figure by itself."""


_PRIVILEGED = frozenset({"JIT: harden"})
"""What only root can read: where one side could not, nothing says that it was another."""

_UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Unlike:
    """Something of the environments that is not the same: its name, and each side's values.

    `decides` says that figures depend on it, so that verdicts do."""

    name: str
    values: tuple[tuple[str, ...], ...]
    decides: bool = True


def unlike(sides: Sequence[Sequence[Document]]) -> list[Unlike]:
    """What differs between the runs of all sides: machine, kernel, mitigations, versions."""
    found = []
    tables = [[_facts(document) for document in side] for side in sides]
    for name in dict.fromkeys(name for side in tables for facts in side for name in facts):
        values = tuple(
            tuple(sorted({facts.get(name, _UNKNOWN) for facts in side})) for side in tables
        )
        of_all = {value for side in values for value in side}
        if len(of_all) > 1:
            is_unread = name in _PRIVILEGED and len(of_all - {_UNKNOWN}) == 1
            found.append(Unlike(name, values, name not in dict(_TOLD) and not is_unread))
    return found


def clock_ghz(documents: Sequence[Document]) -> float | None:
    """The median of the clocks that the runs measured; None where none did."""
    found = [_at(document.environment, "clock", "measured_ghz") for document in documents]
    numbers = [float(clock) for clock in found if isinstance(clock, int | float) and clock > 0]
    return statistics.median(numbers) if numbers else None


def _facts(document: Document) -> dict[str, str]:
    """What of a run's environment decides its figures. Counts have no environment."""
    facts: dict[str, str] = {}
    if document.environment:
        for name, path in (*_FACTS, *_TOLD):
            value = _at(document.environment, *path)
            if isinstance(value, Mapping):
                # Named apart, so that one mitigation among twenty is seen.
                facts |= {f"{name}: {part}": _text(of) for part, of in sorted(value.items())}
            else:
                facts[name] = _text(value)
        facts["xdplab"] = document.run.xdplab_version
    return facts


def _text(value: Any) -> str:
    if isinstance(value, list):
        return "/".join(map(str, value))
    return _UNKNOWN if value is None else str(value)


def _at(environment: Mapping[str, Any], *path: str) -> Any:
    value: Any = environment
    for name in path:
        if not isinstance(value, Mapping):
            return None
        value = value.get(name)
    return value
