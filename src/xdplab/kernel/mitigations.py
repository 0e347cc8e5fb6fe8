"""What the kernel does against branch prediction attacks, as far as calls pay for it.

Read from what /sys/devices/system/cpu/vulnerabilities says, in the words of
arch/x86/kernel/cpu/bugs.c (Documentation/admin-guide/hw-vuln); arm64 says less. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_DOING = "Mitigation: "
_CALL_BUGS = ("spectre_v2", "retbleed", "spec_rstack_overflow", "indirect_target_selection")

_RETURN_THUNKS = (
    ("spec_rstack_overflow", "safe ret", "safe"),
    ("retbleed", "untrained return thunk", "untrained"),
    ("retbleed", "stuffing", "call depth tracking"),
    ("indirect_target_selection", "stuffing", "call depth tracking"),
    ("indirect_target_selection", "return thunk", "ITS"),
)
"""Vulnerability, what its text has in it, and what returns then jump through. The first that
fits: the kernel has one return thunk at a time, and SRSO's replaces retbleed's."""


def call_mitigations(texts: Mapping[str, str] | None) -> dict[str, Any] | None:
    """Fields of the environment: what indirect branches, calls and returns are made of here.

    `texts` are those of the vulnerabilities folder by file name, None where there is none, which
    is the answer then. `retpolines` and `rsb_filling` are bool; `return_thunks` is "safe" (SRSO),
    "untrained" (retbleed), "call depth tracking", "ITS" or None (plain returns);
    `indirect_branches`, `ibpb` (how often), `bhi`, `srso` and `its` are the kernel's words, None
    where it says nothing of them; `vulnerable` names those of the bugs above that nothing is done
    against.
    """
    if texts is None:
        return None
    parts = [part.strip() for part in _of(texts, "spectre_v2").split(";")]
    named = dict(part.split(": ", 1) for part in parts if ": " in part)
    return {
        "retpolines": "retpoline" in parts[0].lower(),
        "return_thunks": next(
            (name for bug, words, name in _RETURN_THUNKS if words in _of(texts, bug).lower()), None
        ),
        "rsb_filling": "RSB filling" in parts,
        "indirect_branches": parts[0] or None,
        "ibpb": named.get("IBPB"),
        "bhi": named.get("BHI"),
        "srso": _of(texts, "spec_rstack_overflow") or None,
        "its": _of(texts, "indirect_target_selection") or None,
        "vulnerable": [
            bug for bug in _CALL_BUGS if _of(texts, bug).lower().startswith("vulnerable")
        ],
    }


def _of(texts: Mapping[str, str], bug: str) -> str:
    return str(texts.get(bug, "")).removeprefix(_DOING).strip()


def in_force(fields: Mapping[str, Any]) -> tuple[str, ...]:
    """What calls of this kernel pay for, in a few words each; empty where it is nothing."""
    names = ("indirect_branches", "return_thunks", "bhi", "ibpb", "srso")
    branches, thunks, bhi, ibpb, srso = (str(fields.get(name) or "") for name in names)
    found = ["retpolines" if fields.get("retpolines") else branches if _is_done(branches) else ""]
    if "IBRS" in branches and fields.get("retpolines"):
        found.append(branches.split(" + ", maxsplit=1)[0])
    found += [
        f"return thunks ({thunks})" if thunks else "",
        # By retpolines, which are named already.
        f"BHI {bhi}" if _is_done(bhi) and not bhi.lower().startswith("retpoline") else "",
        f"SRSO {srso}" if "IBPB" in srso else "",
        f"IBPB {ibpb}" if _is_done(ibpb) else "",
    ]
    return tuple(text for text in found if text)


def _is_done(words: str) -> bool:
    return bool(words) and not words.lower().startswith(("vulnerable", "not affected", "disabled"))
