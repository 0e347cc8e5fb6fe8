"""What the kernel says of its mitigations, in the words of several machines."""

from __future__ import annotations

import pytest

from xdplab.kernel.mitigations import call_mitigations, in_force

_NOT = "Not affected"
MACHINES: dict[str, tuple[dict[str, str], tuple[str, ...], list[str]]] = {
    "retpolines and aligned thunks": (
        {
            "spectre_v2": "Mitigation: Retpolines; STIBP: disabled; RSB filling; "
            "PBRSB-eIBRS: Not affected; BHI: Retpoline",
            "retbleed": "Vulnerable",
            "spec_rstack_overflow": _NOT,
            "indirect_target_selection": "Mitigation: Aligned branch/return thunks",
        },
        ("retpolines", "return thunks (ITS)"),
        ["retbleed"],
    ),
    "AMD, safe RET": (
        {
            "spectre_v2": "Mitigation: Enhanced / Automatic IBRS; IBPB: conditional; "
            "STIBP: always-on; RSB filling; PBRSB-eIBRS: Not affected; BHI: Not affected",
            "retbleed": _NOT,
            "spec_rstack_overflow": "Mitigation: Safe RET",
        },
        ("Enhanced / Automatic IBRS", "return thunks (safe)", "IBPB conditional"),
        [],
    ),
    "AMD, IBPB at each entry": (
        {
            "spectre_v2": "Mitigation: Retpolines; IBPB: conditional; IBRS_FW",
            "retbleed": "Mitigation: untrained return thunk; SMT disabled",
            "spec_rstack_overflow": "Mitigation: IBPB",
        },
        ("retpolines", "return thunks (untrained)", "SRSO IBPB", "IBPB conditional"),
        [],
    ),
    "Intel, both and a loop on entry": (
        {
            "spectre_v2": "Mitigation: Enhanced / Automatic IBRS + Retpolines; "
            "IBPB: always-on; RSB filling; BHI: SW loop, KVM: SW loop",
            "indirect_target_selection": "Mitigation: Retpolines, Stuffing RSB",
        },
        (
            "retpolines",
            "Enhanced / Automatic IBRS",
            "return thunks (call depth tracking)",
            "BHI SW loop, KVM: SW loop",
            "IBPB always-on",
        ),
        [],
    ),
    "all off": (
        {
            "spectre_v2": "Vulnerable; IBPB: disabled; STIBP: disabled; BHI: Vulnerable",
            "retbleed": "Vulnerable",
            "indirect_target_selection": "Vulnerable",
        },
        (),
        ["spectre_v2", "retbleed", "indirect_target_selection"],
    ),
    "arm64": ({"spectre_v2": "Mitigation: CSV2, BHB"}, ("CSV2, BHB",), []),
    "nothing is affected": ({"spectre_v2": _NOT, "retbleed": _NOT}, (), []),
    "an old kernel": ({}, (), []),
}


@pytest.mark.parametrize(("texts", "words", "vulnerable"), MACHINES.values(), ids=MACHINES)
def test_calls_pay_for_these(
    texts: dict[str, str], words: tuple[str, ...], vulnerable: list[str]
) -> None:
    fields = call_mitigations(texts)
    assert fields is not None
    assert in_force(fields) == words
    assert fields["vulnerable"] == vulnerable


def test_the_fields_are_the_kernels_words() -> None:
    texts, _, _ = MACHINES["retpolines and aligned thunks"]
    assert call_mitigations(texts) == {
        "retpolines": True,
        "return_thunks": "ITS",
        "rsb_filling": True,
        "indirect_branches": "Retpolines",
        "ibpb": None,
        "bhi": "Retpoline",
        "srso": _NOT,
        "its": "Aligned branch/return thunks",
        "vulnerable": ["retbleed"],
    }


def test_where_nothing_tells_nothing_is_known() -> None:
    assert call_mitigations(None) is None
    assert in_force({}) == ()
