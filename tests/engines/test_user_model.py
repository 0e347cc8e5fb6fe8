"""The veth model and chosen data paths on the user-space engine's side of the seam."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from xdplab.engines.base import XDP_PASS, XDP_REDIRECT, XDP_TX, Method, Subject
from xdplab.engines.user import PACKETS, UserEngine
from xdplab.errors import UsageError
from xdplab.packets.frame import Frame, udp_frame
from xdplab.program import ObjectSpec
from xdplab.program.shipped import shipped_object
from xdplab.user.datapath import CHOOSABLE, DATAPATH, VETH_MODEL

FRAME = udp_frame("ipv4", 64)


def subject(
    program: str, action: int, reuse: str = "", receive: str = VETH_MODEL, key: str = ""
) -> Subject:
    datapath = {"receive": receive} | ({"skb_reuse": reuse} if reuse else {})
    spec = shipped_object("veth_model")
    return Subject(key or program, spec, program, FRAME, action=action, datapath=datapath)


@pytest.mark.parametrize("reuse", ["off", "napi-cache"])
def test_packets_go_through_the_model(reuse: str) -> None:
    subjects = [subject("tx_drop", XDP_TX, reuse), subject("redirect_pass", XDP_REDIRECT, reuse)]
    with UserEngine().open(subjects, Method.PACKET) as session:
        assert not session.missing
        session.place([one.key for one in subjects])
        for one in subjects:
            once, twice = session.timer(one.key), session.timer(one.key, doubled=True)
            assert once.operations_per_call == twice.operations_per_call == PACKETS
            assert 0 < min(once() for _ in range(10)) < min(twice() for _ in range(10))


def test_the_model_takes_longer_than_the_program_alone() -> None:
    subjects = [
        subject("tx_pass", XDP_TX, key="modelled"),
        subject("tx_pass", XDP_TX, receive="ring", key="alone"),
    ]
    with UserEngine().open(subjects, Method.PACKET) as session:
        session.place(["modelled", "alone"])
        best = {key: min(session.timer(key)() for _ in range(20)) for key in ("modelled", "alone")}
    assert best["modelled"] > 2 * best["alone"]


def test_reuse_differs_from_none_in_what_the_timer_runs() -> None:
    """By the heads that stay in the cache: their number after a call tells which it was."""
    subjects = [subject("tx_drop", XDP_TX, reuse, key=reuse) for reuse in DATAPATH["skb_reuse"]] + [
        subject("tx_drop", XDP_TX, key="open")
    ]

    def kept(engine: UserEngine) -> Mapping[str, int]:
        with engine.open(subjects, Method.PACKET) as session:
            found = {}
            for one in subjects:
                timer = session.timer(one.key)
                timer()
                found[one.key] = timer._job.counts.heads_cached  # type: ignore[attr-defined]
            return found

    assert kept(UserEngine()) == {"off": 0, "napi-cache": 16, "open": 0}
    # What a run chooses is for subjects that leave it open.
    assert kept(UserEngine({"skb_reuse": "napi-cache"})) == {"off": 0, "napi-cache": 16, "open": 16}


def test_a_timer_outlives_the_placement_it_was_made_for() -> None:
    one = subject("tx_drop", XDP_TX)
    with UserEngine().open([one], Method.PACKET) as session:
        timer = session.timer(one.key)
        for _ in range(3):
            session.place([one.key])
            assert timer() > 0


def test_packets_that_do_not_end_are_a_row_that_says_so(to_nowhere: ObjectSpec) -> None:
    lost = replace(subject("to_nowhere", XDP_REDIRECT), object=to_nowhere)
    wrong = subject("tx_drop", XDP_PASS)
    fine = subject("redirect_drop", XDP_REDIRECT)
    with UserEngine().open([lost, wrong, fine], Method.PACKET) as session:
        assert session.missing == {
            "to_nowhere": "of 64 packets in the veth model 0 came to their end",
            "tx_drop": "tx_drop returned XDP_TX where XDP_PASS means that it did its work",
        }


@pytest.mark.parametrize("value", [v for v in DATAPATH["clear_head"] if v != "none"])
def test_a_chosen_variant_is_for_subjects_that_leave_it_open(value: str) -> None:
    spec = shipped_object("adjust_head")
    frame = Frame(bytes(100))
    subjects = [
        Subject("open", spec, "probe_clears", frame),
        Subject("own", spec, "probe_clears", frame, datapath={"clear_head": "none"}),
    ]
    engine = UserEngine({"clear_head": value})
    assert engine.chosen == {"clear_head": value}
    with engine.open(subjects, Method.OPERATION) as session:
        for key, found in (("open", 2), ("own", 1)):
            session.run(key)
            assert session.read_global(key, "pattern_kept") == found


def test_choices_are_known_names_and_values() -> None:
    for name in CHOOSABLE:
        for value in DATAPATH[name]:
            assert UserEngine({name: value}).chosen == {name: value}
    for wrong, words in {
        (
            "clear_tail",
            "memset",
        ): "cannot choose 'clear_tail' .* clear_head, trait_move, skb_reuse$",
        ("skb_reuse", "on"): "skb_reuse can be off, napi-cache, not 'on'",
        ("receive", VETH_MODEL): "cannot choose 'receive' .* clear_head, trait_move, skb_reuse$",
    }.items():
        with pytest.raises(UsageError, match=words):
            UserEngine(dict([wrong]))


def test_the_default_is_the_first_value() -> None:
    assert not UserEngine().chosen
    assert [next(iter(values)) for values in DATAPATH.values()] == [
        "none",
        "memmove",
        "ring",
        "off",
    ]
