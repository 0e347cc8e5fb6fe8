"""The measured programs do what their rows say: on the kernel, against plain Python."""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from xdplab.engines.base import (
    XDP_ABORTED,
    XDP_DROP,
    XDP_PASS,
    XDP_TX,
    Method,
    Outcome,
    Subject,
)
from xdplab.engines.kernel import KernelEngine
from xdplab.packets.frame import Frame
from xdplab.program import ObjectSpec
from xdplab.program.shipped import shipped_object
from xdplab.suites import packet_access

pytestmark = pytest.mark.needs_kernel

IPV4, IPV6, VLAN, QINQ = 0x0800, 0x86DD, 0x8100, 0x88A8
PARSERS = [row for row in packet_access.ROWS if row.variant.startswith("parse-ip")]


def expected_parse(data: bytes) -> int:
    """What a parser of Ethernet, two tags at most and IP returns, in plain Python."""
    if len(data) < 14:
        return XDP_ABORTED
    kind, at = int.from_bytes(data[12:14], "big"), 14
    for _ in range(2):
        if kind not in {VLAN, QINQ}:
            break
        if len(data) < at + 4:
            return XDP_ABORTED
        kind, at = int.from_bytes(data[at + 2 : at + 4], "big"), at + 4
    needed = {IPV4: 20, IPV6: 40}.get(kind)
    return XDP_ABORTED if needed is None or len(data) < at + needed else XDP_DROP


def outcomes(frame: Frame, programs: list[str], spec: ObjectSpec) -> dict[str, Outcome]:
    """Every program's outcome on a frame; those that this kernel lacks are left out."""
    # The action is not known beforehand: a wrong one only marks a subject as missing.
    subjects = [Subject(name, spec, name, frame) for name in programs]
    with KernelEngine().open(subjects, Method.PACKET) as session:
        return {
            name: session.run(name)
            for name in programs
            if "this kernel lacks" not in session.missing.get(name, "")
        }


@st.composite
def headers(draw: st.DrawFn) -> bytes:
    """Frames around the places where parsing takes another turn."""
    kinds = st.sampled_from([IPV4, IPV6, VLAN, QINQ, 0x0806])
    chain = b"".join(
        draw(st.binary(min_size=2, max_size=2)) + draw(kinds).to_bytes(2, "big") for _ in range(3)
    )
    length = draw(st.integers(34, 90))
    frame = bytes(12) + draw(kinds).to_bytes(2, "big") + chain
    return (frame + draw(st.binary(min_size=60, max_size=60)) + bytes(90))[:length]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(headers())
def test_every_way_of_parsing_agrees_with_python(data: bytes) -> None:
    found = outcomes(Frame(data), [row.program for row in PARSERS], shipped_object("packet_access"))
    assert len(found) >= 3
    exact = expected_parse(data)
    for program, outcome in found.items():
        assert outcome.data == data, program
        if program in COPIES_34:
            # They look at 34 bytes and so cannot see that an IP header ends beyond the frame.
            assert outcome.retval == expected_parse(data + bytes(40)), program
        else:
            assert outcome.retval == exact, program


COPIES_34 = {
    "parse_ip_load_bytes_1",
    "parse_ip_dynptr_slice_1",
    "parse_ip_dynptr_read",
}


def test_both_ways_of_swapping_swap() -> None:
    rng = random.Random(20)
    data = rng.randbytes(64)
    swapped = data[6:12] + data[:6] + data[12:]
    programs = ["swap_macs_dpa", "swap_macs_store_bytes"]
    for program, outcome in outcomes(
        Frame(data), programs, shipped_object("packet_access")
    ).items():
        assert (outcome.retval, outcome.data) == (XDP_TX, swapped), program


@pytest.mark.parametrize("size", [1, 2, 3, 6, 7, 8, 13, 20, 40, 63, 64, 200, 215])
def test_the_word_loop_clears_all_that_was_exposed(clearing: ObjectSpec, size: int) -> None:
    assert left_by(clearing, "words", size) == bytes(size)


@pytest.mark.parametrize("size", [6, 20, 40, 200])
def test_a_constant_memset_clears_all_that_was_exposed(clearing: ObjectSpec, size: int) -> None:
    assert left_by(clearing, f"constant_{size}", size) == bytes(size)


def test_a_smaller_memset_would_be_seen(clearing: ObjectSpec) -> None:
    left = left_by(clearing, "constant_6", 20)
    assert left[:6] == bytes(6)
    assert left[6:] == left_by(clearing, "helper", 20)[6:]


def test_the_probe_agrees_with_what_the_helper_leaves(clearing: ObjectSpec) -> None:
    spec = shipped_object("adjust_head")
    probe = Subject("probe", spec, "probe_clears", Frame(bytes(100)))
    with KernelEngine().open([probe], Method.OPERATION) as session:
        session.run("probe")
        kept = session.read_global("probe", "pattern_kept")
    assert {1: bytes([0xAA]) * 16, 2: bytes(16)}[int(kept)] == left_by(clearing, "helper", 16)


def left_by(clearing: ObjectSpec, operation: str, size: int) -> bytes:
    """The bytes that lie exposed behind an operation that had exposed and hidden them."""
    subject = Subject(
        operation, clearing, f"left_by_{operation}", Frame(bytes(100)), globals={"size": size}
    )
    with KernelEngine().open([subject], Method.OPERATION) as session:
        outcome = session.run(operation)
    assert outcome.retval == XDP_PASS
    return outcome.data[:size]
