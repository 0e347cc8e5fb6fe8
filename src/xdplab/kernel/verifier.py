"""The verifier's refusal: a short reason for the terminal, the whole log in a file."""

from __future__ import annotations

import errno
import re
import tempfile
from pathlib import Path

from xdplab.errors import KernelError, MissingFeatureError, NotPossibleError, VerifierError

# Lines of a log that give state or statistics, never the reason.
_NOISE = re.compile(
    r"^(processed \d+ insns|verification time|stack depth|func#|\d+: |;|R\d+(_w)?=|from \d+ to |"
    r"last_idx|regs=|mark_precise|Validating|-- |BEGIN PROG|END PROG|max_states|$)"
)
_MISSING = (
    re.compile(r"(?:unknown func|program of this type cannot use helper) (\w+)#(\d+)"),
    re.compile(r"invalid func unknown#(\d+)"),
    re.compile(r"calling kernel function (\w+) is not allowed"),
    re.compile(r"kernel (?:func|function) (?:btf_id )?(\w+) is not"),
    re.compile(r"<invalid kfunc call>|kfunc '(\w+)' is referenced but wasn't resolved"),
)


def summarise(log: str) -> str:
    """The log's own reason: the last line that is neither an instruction nor statistics."""
    for line in reversed(log.splitlines()):
        if not _NOISE.match(line.strip()):
            return line.strip()
    return "no reason given"


def refusal(tried: str, number: int, log: str) -> KernelError | NotPossibleError:
    """The error for a refused program: a lacking feature, a lacking right, or a VerifierError."""
    for pattern in _MISSING:
        found = pattern.search(log)
        if found:
            feature = next((group for group in found.groups() if group), "a kfunc")
            return missing_feature(tried, feature)
    summary = summarise(log)
    if number == errno.EPERM and "no reason given" in summary:
        return NotPossibleError(
            f"{tried} was refused (EPERM): loading BPF programs takes CAP_BPF and CAP_NET_ADMIN. "
            "Run as root"
        )
    if "!root" in summary:
        return NotPossibleError(
            f"{tried} was refused: beside CAP_BPF and CAP_NET_ADMIN it takes CAP_PERFMON, without "
            f"which the verifier guards against speculation ({summary}). Run as root"
        )
    return VerifierError(tried, number, summary, log, _keep(log))


def missing_feature(tried: str, feature: str) -> MissingFeatureError:
    """The error for a helper or kfunc that this kernel does not have for XDP programs."""
    return MissingFeatureError(
        feature,
        f"{tried}: this kernel does not let an XDP program use {feature}. "
        "A newer kernel, or one with that option built in, is needed",
    )


def _keep(log: str) -> Path | None:
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="xdplab-verifier-", suffix=".log", delete=False
        ) as file:
            file.write(log)
        return Path(file.name)
    except OSError:
        return None
