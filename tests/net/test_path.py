"""The topology draws itself, and a packet's way through it."""

from __future__ import annotations

from xdplab.engines.live_ways import WAYS, explain
from xdplab.net.path import PAIRS, Hop, Path, draw_path, draw_topology, mac_of
from xdplab.suites.veth import SUITE
from xdplab.suites.veth_routes import ROUTES


def test_every_interface_is_in_the_drawing_with_its_address_and_its_peer() -> None:
    lines = draw_topology().splitlines()
    for near, far in PAIRS:
        (line,) = (one for one in lines if near in one)
        assert mac_of(near) in line
        assert (
            line.index(near) < line.index("== veth ==") < line.index(far) < line.index(mac_of(far))
        )
    assert len({len(line) for line in lines[1:]}) == 1
    assert "namespace outside" in lines[0]
    assert "namespace dut" in lines[0]


def test_a_way_is_drawn_hop_by_hop() -> None:
    path = Path("p", "v1", (Hop("v0", "XDP_REDIRECT", "v2"), Hop("v3", "XDP_DROP")))
    assert draw_path(path, {"v0": "redirect"}).splitlines() == [
        "sent out of v1, to arrive at v0",
        "v0: program redirect: XDP_REDIRECT, out of v2, to arrive at v3",
        "v3: program none: XDP_DROP",
    ]


def test_hops_follow_one_another_by_the_pairs() -> None:
    """What leaves by an interface arrives at its peer, in every way that the engine knows."""
    peers = dict(PAIRS) | {far: near for near, far in PAIRS}
    for way in WAYS.values():
        sender = way.path.enters
        for hop in way.path.hops:
            assert peers[sender] == hop.interface
            sender = hop.leaves
        assert sender == ""


def test_the_suite_explains_all_of_its_rows() -> None:
    assert SUITE.explain is not None
    text = SUITE.explain()
    for route in ROUTES:
        assert route.title in text
        assert explain(route.way, route.program) in text
    assert "to an AF_XDP socket" in text
    assert "map of CPUs" in text
