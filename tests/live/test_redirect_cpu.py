"""xdplab redirect-cpu by its installed command: which CPU each packet goes to, and what of it."""

from __future__ import annotations

import os
from typing import Any

import pytest

from tests.live.commands import live, packet_socket, run, send
from tests.live.pairs import MAC, join, places
from xdplab.packets.frame import udp_frame

pytestmark = [
    pytest.mark.needs_kernel,
    pytest.mark.skipif(
        (os.cpu_count() or 1) < 2, reason="this machine has one CPU: there is no other"
    ),
]

COUNT = 600
FRAME = udp_frame("ipv4", 100).data
# Addresses 192.0.2.1 and 192.0.2.2 in 26..33, ports in 34..37.
REVERSED = FRAME[:26] + FRAME[30:34] + FRAME[26:30] + FRAME[34:]


def with_ports(frame: bytes, source: int, destination: int, at: int = 34) -> bytes:
    return frame[:at] + source.to_bytes(2, "big") + destination.to_bytes(2, "big") + frame[at + 4 :]


def with_protocol(frame: bytes, protocol: int) -> bytes:
    return frame[:23] + bytes([protocol]) + frame[24:]


def with_options(frame: bytes) -> bytes:
    """The same with four bytes of IPv4 options before its UDP header."""
    return frame[:14] + b"\x46" + frame[15:34] + bytes(4) + frame[34:]


def sent_to(found: dict[str, Any]) -> dict[int, int]:
    """Packets by the CPU whose program they reached."""
    by_cpu = {cpu["cpu"]: sum(cpu["behind"].values()) for cpu in found["cpus"]}
    return {cpu: packets for cpu, packets in by_cpu.items() if packets}


def redirected(
    choice: str, cpus: tuple[int, ...], frames: dict[bytes, int], *options: str
) -> dict[str, Any]:
    """The summary of so many of each frame."""
    chosen = [word for cpu in cpus for word in ("-c", str(cpu))]
    with places(2) as (a, b):
        join(a, "v0", b, "v1")
        arguments = ("redirect-cpu", "v1", "-p", choice, *chosen, "-r", "drop", *options, "--json")
        with live(b, *arguments) as command:
            for frame, count in frames.items():
                send(a, "v0", frame, count)
            return command.stop()


UDP6 = udp_frame("ipv6", 100).data
ARP = bytes.fromhex("ffffffffffff0200000000010806") + bytes(46)

TCP, ICMP, OTHER = (with_protocol(FRAME, number) for number in (6, 1, 99))

CASES: dict[str, tuple[str, tuple[int, ...], dict[bytes, int], dict[int, int]]] = {
    "first": ("no-touch", (1, 0), {FRAME: COUNT}, {1: COUNT}),
    "first, touched": ("touch", (1, 0), {FRAME: COUNT}, {1: COUNT}),
    "in turn": ("round-robin", (0, 1), {FRAME: COUNT}, {0: COUNT // 2, 1: COUNT // 2}),
    # UDP is the second class, ICMP the third: the first CPU again.
    "two for three classes": (
        "l4-proto",
        (0, 1),
        {FRAME: 1, UDP6: 2, TCP: 10, OTHER: 20, ARP: 40, ICMP: 100},
        {0: 170, 1: 3},
    ),
    "three for three classes": (
        "l4-proto",
        (0, 0, 1),
        {FRAME: 1, TCP: 10, ICMP: 100},
        {0: 11, 1: 100},
    ),
    "source port": (
        "l4-sport",
        (0, 1),
        {with_ports(FRAME, 1000, 1): 20, with_ports(TCP, 1001, 2): 30},
        {0: 20, 1: 30},
    ),
    # Behind IPv6, behind IPv4 options, behind two tags.
    "destination port": (
        "l4-dport",
        (0, 1),
        {
            with_ports(FRAME, 1, 1000): 1,
            with_ports(UDP6, 2, 1001, 54): 2,
            with_options(with_ports(FRAME, 4, 7)): 10,
            with_ports(udp_frame("qinq", 100).data, 4, 7, 42): 20,
        },
        {0: 1, 1: 32},
    ),
}


@pytest.mark.parametrize("case", list(CASES))
def test_each_packet_goes_to_the_cpu_that_the_choice_says(case: str) -> None:
    choice, cpus, frames, expected = CASES[case]
    found = redirected(choice, cpus, frames)
    assert sent_to(found) == expected
    assert found["packets"] == sum(frames.values()) == found["behind"]["XDP_DROP"]
    assert found["losses"] == {}
    if not found["start"]["not_counted"]:
        assert found["events"]["xdp_cpumap_enqueue"]["offered"] == found["packets"]
        assert found["events"]["xdp_cpumap_kthread"]["processed"] == found["packets"]


def test_both_directions_of_a_flow_meet_on_one_cpu_and_flows_spread() -> None:
    flows = [FRAME[:33] + bytes([host]) + FRAME[34:] for host in range(3, 43)]
    both = sent_to(redirected("l4-hash", (0, 1), {FRAME: 20, REVERSED: 20}))
    assert list(both.values()) == [40]
    spread = sent_to(redirected("l4-hash", (0, 1), dict.fromkeys(flows, 1)))
    # Forty flows all on one of two CPUs: as good as no hash at all.
    assert set(spread) == {0, 1}


def test_the_filter_drops_what_is_for_the_discard_port() -> None:
    frames = {FRAME: 30, with_ports(FRAME, 1, 80): 20}
    found = redirected("l4-filter", (0, 1), frames)
    assert found["actions"]["XDP_DROP"] == 30
    assert sent_to(found) == {1: 20}


def test_a_packet_that_is_too_short_is_aborted() -> None:
    found = redirected("l4-hash", (0, 1), {FRAME[:20]: 7})
    assert found["losses"] == {"XDP_ABORTED": 7}
    assert sent_to(found) == {}


def test_without_a_program_there_packets_go_on_to_the_stack() -> None:
    with (
        places(2) as (a, b),
        packet_socket(join(a, "v0", b, "v1"), "v1") as hears,
        live(b, "redirect-cpu", "v1", "-c", "1", "--json") as command,
    ):
        send(a, "v0", FRAME, 50)
        heard = [hears.recv(2000) for _ in range(50)]
        found = command.stop()
    assert heard == [FRAME] * 50
    assert found["packets"] == 50
    assert sent_to(found) == {}


def test_what_is_redirected_there_leaves_by_the_other_interface() -> None:
    with places(3) as (a, b, c):
        join(a, "v0", b, "v1")
        join(b, "w0", c, "w1", pair=1)
        arguments = ("redirect-cpu", "v1", "-c", "1", "-r", "redirect", "-D", "w0", "--json")
        with (
            packet_socket(c, "w1") as hears,
            live(c, "pass", "w1", "--json") as sink,
            live(b, *arguments) as command,
        ):
            send(a, "v0", FRAME, COUNT)
            heard = hears.recv(2000)
            found = command.stop()
            sunk = sink.stop()
    source = bytes.fromhex(MAC.format(pair=1, end=0).replace(":", ""))
    assert heard == FRAME[6:12] + source + FRAME[12:]
    assert found["behind"]["XDP_REDIRECT"] == sunk["packets"] == COUNT
    assert found["losses"] == {}


def test_every_packet_is_accounted_for_where_a_queue_overflows() -> None:
    found = redirected("no-touch", (1,), {FRAME: 20 * COUNT}, "-q", "1")
    if found["start"]["not_counted"]:
        pytest.skip(f"no tracepoints here: {found['start']['not_counted']}")
    lost = sum(found["losses"].values())
    assert set(found["losses"]) <= {"xdp_cpumap_enqueue dropped, queue full"}
    assert sent_to(found).get(1, 0) + lost == found["packets"] == 20 * COUNT


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("v1",), "Missing option '-c'"),
        (("v1", "-c", "9999"), "this machine's are 0 to"),
        (("v1", "-c", "0", "-r", "redirect"), "go together"),
        (("v1", "-c", "0", "-D", "v1"), "go together"),
        (("v1", "-c", "0", "-q", "20000"), "from 1 to 16384"),
    ],
)
def test_what_cannot_be_is_said(arguments: tuple[str, ...], words: str) -> None:
    with places(2) as (a, b):
        join(a, "v0", b, "v1")
        refused = run(b, "redirect-cpu", *arguments)
    assert refused.returncode == 2
    assert words in refused.stderr
    assert "Traceback" not in refused.stderr


def test_a_right_that_is_missing_is_named() -> None:
    with places(2) as (a, b):
        join(a, "v0", b, "v1")
        rights = "-all,+bpf,+net_admin"
        prefix = ("setpriv", f"--bounding-set={rights}", "--inh-caps=-all", "--ambient-caps=-all")
        refused = run(b, "redirect-cpu", "v1", "-c", "0", prefix=prefix)
    assert refused.returncode == 3
    assert "CAP_PERFMON" in refused.stderr
