"""A guest's console read back: figures from whole ones, one sentence from all others."""

from __future__ import annotations

import json

import pytest

from tests.guests.recorded import adjust_head, console
from xdplab.guests.console import PREFIX, GuestError, read_console

GUEST = {"guest": 1, "release": "6.0", "version": "#1", "machine": "x86_64", "bpf": 0}


def said(*records: dict[str, object]) -> str:
    """A console on which the runner says these, with a kernel's line among them."""
    lines = [PREFIX + json.dumps(record) for record in records]
    return "\r\n".join([*lines[:1], "[    0.5] clocksource: switched", *lines[1:], ""])


def test_a_recorded_console_has_every_row_and_what_the_kernel_is() -> None:
    planned = adjust_head()
    report = read_console(console("before", planned), "A")
    assert report.release.startswith("6.12")
    assert "spectre_v2" in report.mitigations
    assert report.facts["jit"] == "1"
    row = planned.bundle.rows["adjust-head/1", "empty"]
    assert report.rows[row.number].ns == (83,) * 5
    refused = [row for row in planned.bundle.rows.values() if row.number not in report.rows]
    assert {row.prog for row in refused} == set(report.progs)
    assert all("verifier refuses" in why for why in report.progs.values())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (console("panic"), ("panicked", "Unable to mount root fs", "last lines")),
        ("", ("said nothing", "CONFIG_SERIAL_8250_CONSOLE")),
        ("Booting\nDone\n", ("before its first program", "CONFIG_BLK_DEV_INITRD", "Done")),
        (console("no_bpf"), ("has no bpf(2)", "CONFIG_BPF_SYSCALL")),
        (said(GUEST, {"row": 0, "retval": 2, "ns": [1]}), ("ended, after 1 rows",)),
        (
            said(GUEST) + "Kernel panic - not syncing: Fatal exception\n",
            ("panicked: Fatal exception", "after 0 rows"),
        ),
        (said(GUEST, {"end": 1})[:-9] + "[ 1.0] oops", ("damaged", "Boot it again")),
        (said(GUEST, {"row": 0}, {"end": 1}), ("retval",)),
        (said(GUEST, {"row": 0, "retval": 2, "value": "xy"}, {"end": 1}), ("failed",)),
        (said({"row": 0, "retval": 2}, {"end": 1}), ("before its first program",)),
    ],
)
def test_what_is_no_whole_console_is_one_sentence(text: str, words: tuple[str, ...]) -> None:
    with pytest.raises(GuestError) as caught:
        read_console(text, "bzImage")
    message = str(caught.value)
    assert all(word in message for word in words), message
    assert message.startswith(("bzImage", "reading what bzImage"))


def test_what_a_console_says_cannot_steer_a_terminal() -> None:
    with pytest.raises(GuestError) as caught:
        read_console("\x1b[2Jgone\x07\n", "bzImage")
    assert "\x1b" not in str(caught.value)
    assert "gone" in str(caught.value)


def test_programs_and_maps_that_are_missing_have_reasons() -> None:
    report = read_console(
        said(
            GUEST,
            {"map": 1, "errno": 22},
            {"prog": 0, "lacks": "bpf_xdp_pull_data"},
            {"prog": 1, "errno": 13, "log": "0: call\nR3 !read_ok\nprocessed 3 insns\n"},
            {"row": 2, "retval": 1, "errno": 22},
            {"end": 3},
        ),
        "A",
    )
    assert report.progs[0] == "this kernel lacks bpf_xdp_pull_data"
    assert report.progs[1].endswith("(errno 13): R3 !read_ok")
    assert report.maps == {1: 22}
    assert (report.rows[2].ns, report.rows[2].errno) == ((), 22)
