"""A topology that loses packets is told from one that works, with the hop and the reason."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest

from tests.net.lab import DROP, REDIRECT_DROP, TX_DROP, TX_PASS, Lab, lab
from xdplab.errors import NotPossibleError
from xdplab.net.check import Trace, trace
from xdplab.net.generators.programs import FramesGenerator, SkbGenerator
from xdplab.net.generators.ring import RingGenerator
from xdplab.net.path import Path

pytestmark = pytest.mark.needs_kernel


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """For packets that will never come: half a second each would be long."""
    monkeypatch.setattr("xdplab.net.check._PATIENCE_S", 0.05)


GENERATORS = {"frames": FramesGenerator, "skb": SkbGenerator, "ring": RingGenerator}


def traced(
    made: Lab, path: Path, generator: str, to: str | None = None, frame_bytes: int = 64
) -> Trace:
    """One packet through the path; by default to the MAC address of where it ends."""
    traffic = made.traffic(to or path.hops[-1].interface, frame_bytes=frame_bytes)

    def at_end() -> int:
        return made.device if path is DROP else made.sink

    with GENERATORS[generator](made.outlet, traffic) as sender:
        return trace(made.topology, path, lambda: sender.burst(1), at_end, frame_bytes)


WORKING = [
    (DROP, {"v0": "drop"}),
    (TX_DROP, {"v0": "tx", "v1": "sink_drop"}),
    (TX_PASS, {"v0": "tx", "v1": "sink_pass"}),
    (REDIRECT_DROP, {"v0": "redirect", "v3": "sink_drop"}),
]


@pytest.mark.parametrize("generator", GENERATORS)
def test_a_packet_is_followed_to_the_end(generator: str) -> None:
    for path, programs in WORKING:
        with lab(programs) as made:
            found = traced(made, path, generator)
        assert len(found.steps) == len(path.hops)
        for step, hop in zip(found.steps, path.hops, strict=True):
            assert step.startswith(f"{hop.interface}: {hop.action}")
        # Nobody has the address that it is for; what the stack calls that is the kernel's.
        assert bool(found.stack_reason) == (path is TX_PASS)


def set_down(name: str) -> Callable[[Lab], None]:
    def tweak(made: Lab) -> None:
        from pyroute2 import IPRoute

        with made.topology.inside(name) as port, IPRoute() as netlink:
            netlink.link("set", index=port.ifindex, state="down")

    return tweak


NOTHING: Callable[[Lab], None] = lambda _made: None  # noqa: E731 - one of several tweaks
NO_PEER = "has neither a native XDP program nor GRO"

BROKEN = [
    (TX_DROP, {"v0": "tx"}, NOTHING, f"v0, but could not be sent out of v0: v1 {NO_PEER}"),
    # Linux before 6.3 finds out one step later, when the packet is to leave v2.
    (REDIRECT_DROP, {"v0": "redirect"}, NOTHING, f": v3 {NO_PEER}"),
    (DROP, {"v0": "drop"}, set_down("v0"), "what left v1 did not arrive at v0: v0 is down"),
    (
        REDIRECT_DROP,
        {"v0": "redirect", "v3": "sink_drop"},
        set_down("v2"),
        "out of v2: the interface that it should leave by is down",
    ),
    (TX_DROP, {"v0": "drop", "v1": "sink_drop"}, NOTHING, "returned XDP_DROP, not XDP_TX"),
    (REDIRECT_DROP, {"v0": "redirect_map", "v3": "sink_drop"}, NOTHING, "XDP_ABORTED"),
    # The last hop's answer is no other than the path says either, whatever was counted there.
    (TX_DROP, {"v0": "tx", "v1": "sink_pass"}, NOTHING, "v1, but its program returned XDP_PASS"),
    (TX_PASS, {"v0": "tx", "v1": "sink_drop"}, NOTHING, "v1, but its program returned XDP_DROP"),
]


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("generator", ["frames", "skb"])
@pytest.mark.parametrize("case", range(len(BROKEN)))
def test_where_a_packet_is_lost_is_named_with_the_reason(generator: str, case: int) -> None:
    path, programs, tweak, wanted = BROKEN[case]
    with lab(programs) as made:
        tweak(made)
        with pytest.raises(NotPossibleError) as raised:
            traced(made, path, generator)
    assert wanted in str(raised.value)
    assert f"the path {path.name} loses its packets" in str(raised.value)


@pytest.mark.usefixtures("impatient")
def test_no_program_at_the_device_is_named() -> None:
    with lab({"v1": "sink_drop"}) as made:
        with pytest.raises(NotPossibleError, match=f"v1 did not arrive at v0: v0 {NO_PEER}"):
            traced(made, TX_DROP, "frames")
        with pytest.raises(NotPossibleError, match="arrived at v0, but there is no XDP program"):
            traced(made, TX_DROP, "skb")


@pytest.mark.parametrize("generator", GENERATORS)
def test_what_is_for_another_host_is_not_taken_for_passed(generator: str) -> None:
    with (
        lab({"v0": "tx", "v1": "sink_pass"}) as made,
        pytest.raises(
            NotPossibleError, match="MAC address is another host's, not 02:00:00:00:00:11"
        ),
    ):
        traced(made, TX_PASS, generator, to="v3")


def test_a_frame_that_no_interface_lets_through_is_not_sent() -> None:
    with (
        lab({"v0": "drop"}) as made,
        pytest.raises(NotPossibleError, match="1515 bytes does not pass .* MTU of 1500"),
    ):
        traced(made, DROP, "ring", frame_bytes=1515)
    with lab({"v0": "drop"}) as made:
        assert traced(made, DROP, "ring", frame_bytes=1514).steps == ("v0: XDP_DROP",)


@pytest.mark.usefixtures("impatient")
def test_generic_xdp_sees_what_a_ring_sends_and_live_frames_with_gro() -> None:
    with lab() as made:
        made.attach("v0", "drop", "generic")
        assert traced(made, DROP, "ring").steps == ("v0: XDP_DROP",)
        # Not every kernel marks what a classifier redirects.
        with contextlib.suppress(NotPossibleError):
            assert traced(made, DROP, "skb").steps == ("v0: XDP_DROP",)
        # Without NAPI there is nobody to take live frames.
        with pytest.raises(NotPossibleError, match=NO_PEER):
            traced(made, DROP, "frames")
        made.topology.set_gro("v0", True)
        assert traced(made, DROP, "frames").steps == ("v0: XDP_DROP",)
