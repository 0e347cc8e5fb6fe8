"""xdplab trafficgen as a user runs it: what it says that it sent is what arrived."""

from __future__ import annotations

import json
import re
import signal
import struct
import subprocess
import time
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from tests.cli.command import XDPLAB, assert_clean_error, environment
from tests.live.commands import live, run
from tests.live.pairs import Place, join, places
from xdplab.cli.trafficgen import command
from xdplab.errors import XdplabError
from xdplab.kernel.namespace import NetworkNamespace
from xdplab.packets.traffic import Flows, Span

pytestmark = pytest.mark.needs_kernel

USAGE, NOT_POSSIBLE, INTERRUPTED = 2, 3, 130


def trafficgen(place: Place, *arguments: str) -> subprocess.CompletedProcess[str]:
    """`xdplab trafficgen ARGUMENTS` in a namespace, until it ends by itself."""
    return run(place, "trafficgen", *arguments)


def summary(result: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """The last of its JSON lines, which the intervals add up to."""
    assert result.returncode == 0, result.stderr
    start, *intervals, last = [json.loads(line) for line in result.stdout.splitlines()]
    assert (start["type"], last["type"]) == ("start", "summary")
    for what in ("generated", "refused", "sent"):
        assert sum(line[what] for line in intervals) == last[what]
    return dict(last)


@pytest.mark.parametrize("generator", ["frames", "skb", "ring"])
def test_two_commands_and_no_other_set_up(generator: str) -> None:
    with places(2) as (a, b):
        join(a, "v0", b, "v1")
        with live(b, "drop", "v1", "-p", "parse-ip", "-l", "load-bytes", "--json") as dropping:
            sent = summary(trafficgen(a, "v0", "-g", generator, "-n", "20011", "--json"))
            # A busy machine may leave veth's ring to ksoftirqd for a while: what it then refuses
            # is counted, and the rest arrives.
            assert sent["generated"] == 20_011 == sent["refused"] + sent["sent"]
            assert sent["ended_by"] == "packets"
            received = dropping.stop()
    assert received["packets"] == sent["sent"] > 0
    assert received["actions"]["XDP_DROP"] == sent["sent"]


def test_lines_and_summary_are_for_people() -> None:
    with places(2) as (a, b):
        join(a, "v0", b, "v1")
        with live(b, "drop", "v1") as dropping:
            result = trafficgen(a, "v0", "-n", "1000", "-i", "0.05")
            dropping.stop_quietly()
    assert result.returncode == 0
    assert "xdplab: trafficgen on v0 (frames)\n" in result.stderr
    *lines, driver = result.stdout.splitlines()
    assert "tx/s" in lines[0]
    assert lines[-1].startswith("v0: 1,000 packets in ")
    assert lines[-1].endswith("ended since all were made")
    assert driver == "  v0's driver: tx_queue_0_xdp_xmit 1,000"


def test_a_peer_that_takes_nothing_is_said_at_once_and_nothing_is_measured() -> None:
    with places(2) as (a, b):
        join(a, "v0", b, "v1")
        result = trafficgen(a, "v0")
        assert_clean_error(
            result, NOT_POSSIBLE, "v0 took no packet of the generator frames", "v1 has neither"
        )
        assert result.stdout == ""


def test_the_interface_of_the_default_route_is_not_touched_unless_it_is_meant() -> None:
    with places(2) as (a, b):
        join(a, "v0", b, "v1")
        a.netlink.addr("add", index=a.ifindex("v0"), address="192.0.2.1", prefixlen=24)
        a.netlink.route("add", dst="default", gateway="192.0.2.2")
        with live(b, "drop", "v1") as dropping:
            result = trafficgen(a, "v0", "-n", "10")
            assert_clean_error(
                result, USAGE, "v0 was not touched", "carries the default route", "--yes-this"
            )
            meant = trafficgen(a, "v0", "-n", "10", "--yes-this-interface", "--json")
            assert summary(meant)["sent"] == 10
            dropping.stop_quietly()


def test_explaining_sends_nothing() -> None:
    with places(2) as (a, b):
        join(a, "v0", b, "v1")
        with live(b, "pass", "v1", "--json") as passing:
            result = trafficgen(a, "v0", "--explain", "-A", "10.0.0.0/24", "-P", "1-10", "-r", "5")
            assert result.returncode == 0, result.stderr
            for wanted in (
                "v0: veth",
                "v1 (02:00:00:00:00:01)",
                "native XDP",
                "2,560 flows",
                "5 a",
            ):
                assert wanted in result.stdout
            assert passing.stop()["packets"] == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("v7",), "none of that name"),
        (("v0", "-A", "192.0.2.300"), "is no range of addresses"),
        (("v0", "-A", "192.0.2.1", "-a", "2001:db8::1"), "one address is of IPv4 and one of IPv6"),
        (("v0", "-p", "70000"), "is no range of ports"),
        (("v0", "-m", "02:00"), "is no MAC address"),
        (("v0", "-s", "50", "--tcp"), "with these headers it must have 54"),
        (("v0", "-s", "9000"), "the generator frames cannot send 9000 bytes"),
        (("v0", "-r", "0"), "is no rate from"),
        (("v0", "--batch", "9", "-g", "skb"), "--batch belongs to the generator frames"),
        (("v0", "--cpu", "8000"), "--cpu 8000 was asked for"),
        (("v0", "--pcap", "/nowhere.pcap"), "/nowhere.pcap"),
        (("lo",), "Give the MAC address of the other side: --dst-mac"),
    ],
)
def test_what_cannot_be_sent_is_an_error_without_a_packet(
    arguments: tuple[str, ...], words: str
) -> None:
    with places(2) as (a, b):
        join(a, "v0", b, "v1")
        with a.namespace:
            result = CliRunner().invoke(command, [*arguments, "-n", "1"], standalone_mode=False)
        error = result.exception
        assert isinstance(error, XdplabError | click.UsageError), result.exc_info
        said = error.message if isinstance(error, click.UsageError) else str(error)
        assert words in said
        assert error.exit_code == (NOT_POSSIBLE if "cannot send 9000" in words else USAGE)
        assert result.output == ""


def test_a_frame_that_is_too_long_for_the_interface_is_said() -> None:
    with places(2) as (a, b):
        join(a, "v0", b, "v1")
        with live(b, "drop", "v1") as dropping:
            result = trafficgen(a, "v0", "-s", "1600", "-n", "5", "-g", "frames")
            assert_clean_error(result, NOT_POSSIBLE, "too long for v0", "MTU of 1500")
            dropping.stop_quietly()


def test_a_capture_is_sent_as_it_is(tmp_path: Path) -> None:
    frames = [
        Flows(Span(1), Span(2), source_port=Span(port), frame_bytes=60 + 10 * port).first_frame
        for port in range(5)
    ]
    capture = tmp_path / "c.pcap"
    header = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
    records = b"".join(struct.pack("<4I", 0, 0, len(one), len(one)) + one for one in frames)
    capture.write_bytes(header + records)
    with places(2) as (a, b):
        join(a, "v0", b, "v1")
        with live(b, "drop", "v1", "-p", "parse-ip", "--json") as dropping:
            sent = summary(trafficgen(a, "v0", "--pcap", str(capture), "-n", "5000", "--json"))
            received = dropping.stop()
    assert sent["sent"] == received["packets"] == 5000
    # As many bytes as a thousand times the capture has.
    driver = received["drivers"]["v1"]
    assert driver["rx_queue_0_xdp_bytes"] == 1000 * sum(map(len, frames))


@pytest.mark.parametrize("arguments", [(), ("-d", "60")])
def test_ctrl_c_ends_it_with_its_summary(arguments: tuple[str, ...]) -> None:
    with places(2) as (a, b):
        join(a, "v0", b, "v1")
        with (
            live(b, "drop", "v1", "--json") as dropping,
            live(a, "trafficgen", "v0", "--json", *arguments) as sending,
        ):
            sending.send_signal(signal.SIGINT)
            status, stdout, _ = sending.rest()
            # With an end of its own it was cut short.
            assert status == (INTERRUPTED if arguments else 0)
            last = json.loads(stdout.splitlines()[-1])
            assert (last["type"], last["ended_by"]) == ("summary", "signal")
            assert dropping.stop()["packets"] == last["sent"]


def test_a_rate_is_kept() -> None:
    with places(2) as (a, b):
        join(a, "v0", b, "v1")
        with live(b, "drop", "v1") as dropping:
            sent = summary(trafficgen(a, "v0", "-r", "5000", "-d", "1", "--json"))
            dropping.stop_quietly()
    # Whatever time it took on this machine: what was due is made up for.
    assert sent["sent"] == pytest.approx(5000 * sent["seconds"], rel=0.02, abs=110)


def test_without_a_right_it_says_which() -> None:
    namespace = NetworkNamespace()
    try:
        with namespace:
            result = subprocess.run(
                ["setpriv", "--reuid=65534", "--clear-groups", XDPLAB, "trafficgen", "lo",
                 "-m", "02:00:00:00:00:01", "-n", "1"],
                capture_output=True, text=True, check=False, timeout=60,
                # Another user's home and store are not that user's.
                env=environment({"HOME": "/nonexistent", "XDPLAB_STORE": ""}),
            )  # fmt: skip
    except FileNotFoundError:
        pytest.skip("setpriv (util-linux) is not here")
    finally:
        namespace.close()
    assert_clean_error(result, NOT_POSSIBLE, "EPERM")


# --- what goes wrong in the middle, and what is refused with its cause


@pytest.mark.parametrize("generator", ["frames", "skb", "ring"])
def test_an_interface_that_is_removed_ends_it_with_a_summary(generator: str) -> None:
    with places(2) as (a, b):
        join(a, "v0", b, "v1")
        with live(b, "drop", "v1"), live(a, "trafficgen", "v0", "-g", generator) as sending:
            time.sleep(0.2)
            a.netlink.link("del", index=a.ifindex("v0"))
            status, stdout, stderr = sending.rest()
    assert status == NOT_POSSIBLE
    assert re.search(r"v0: [\d,]+ packets in .*an interface was removed", stdout)
    assert "trafficgen ended early: v0 was removed" in stderr
    assert "writing the output failed" not in stderr


@pytest.mark.parametrize(
    ("generator", "mtu", "end"),
    [
        ("frames", {"v0": 600}, "too long for v0: its MTU"),
        # Clones of an skb pass their own interface's MTU by.
        ("ring", {"v0": 600}, "too long for v0: its MTU"),
        *((name, {"v1": 600}, "v0's peer v1: its MTU") for name in ("frames", "skb", "ring")),
    ],
)
def test_frames_that_an_end_is_too_narrow_for_are_not_sent(
    generator: str, mtu: dict[str, int], end: str
) -> None:
    with places(2) as (a, b):
        join(a, "v0", b, "v1")
        for name, value in mtu.items():
            (a if name == "v0" else b).set(name, mtu=value)
        with live(b, "drop", "v1") as dropping:
            result = trafficgen(a, "v0", "-g", generator, "-s", "1000", "-n", "3")
            dropping.stop_quietly()
    assert_clean_error(result, NOT_POSSIBLE, end)


def test_ring_says_at_once_that_there_is_no_carrier() -> None:
    with places(2) as (a, b):
        join(a, "v0", b, "v1")
        b.set("v1", state="down")
        assert_clean_error(
            trafficgen(a, "v0", "-g", "ring", "-n", "3"), NOT_POSSIBLE, "v0 has no carrier"
        )


def test_a_sink_that_goes_away_is_named_at_the_end() -> None:
    with places(2) as (a, b):
        join(a, "v0", b, "v1")
        with (
            live(b, "drop", "v1") as dropping,
            live(a, "trafficgen", "v0", "-r", "10000", "-d", "1") as sending,
        ):
            time.sleep(0.2)
            dropping.stop_quietly()
            status, stdout, stderr = sending.rest()
    assert status == 0
    assert "v0 did not take" in stdout
    assert "v1 has neither a native XDP program nor GRO" in stderr


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        (["-A", "0.0.0.0/0"], "more than 2^32 - 1"),
        (["--pcap", "/dev/null", "-s", "100", "--tcp"], "leave out --pkt-size, --tcp"),
    ],
)
def test_what_cannot_be_meant_is_refused_in_a_sentence(options: list[str], wanted: str) -> None:
    with places(2) as (a, b):
        join(a, "v0", b, "v1")
        assert_clean_error(trafficgen(a, "v0", "-n", "1", *options), USAGE, wanted)


def test_few_descriptors_are_named() -> None:
    with places(2) as (a, b):
        join(a, "v0", b, "v1")
        for limit in ("10", "14", "20"):
            result = run(b, "xsk-drop", "v1", "-d", "0.1", prefix=("prlimit", f"--nofile={limit}"))
            if result.returncode:
                assert_clean_error(result, NOT_POSSIBLE, "ulimit -n")
