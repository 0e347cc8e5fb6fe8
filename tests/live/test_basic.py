"""xdplab drop, pass and tx by their installed command, with packets that are counted one by one."""

from __future__ import annotations

import fcntl
import json
import re
import signal
import socket
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

from tests.cli.command import XDPLAB, environment
from tests.live.commands import live, packet_socket, run, send
from tests.live.pairs import join, places
from xdplab.packets.frame import udp_frame

pytestmark = pytest.mark.needs_kernel

COUNT = 2000
FRAME = udp_frame("ipv4", 100).data
SWAPPED = FRAME[6:12] + FRAME[:6] + FRAME[12:]
ARP = bytes.fromhex("ffffffffffff0200000000010806") + bytes(46)
SHORT = FRAME[:20]


@pytest.mark.parametrize(
    ("operation", "access"),
    [
        ("no-touch", "dpa"),
        ("read-data", "dpa"),
        ("read-data", "load-bytes"),
        ("parse-ip", "dpa"),
        ("parse-ip", "load-bytes"),
    ],
)
def test_drop_counts_every_packet(operation: str, access: str) -> None:
    with places(2) as (a, b):
        join(a, "v0", b, "v1")
        with live(b, "drop", "v1", "-p", operation, "-l", access, "--json") as drop:
            send(a, "v0", FRAME, COUNT)
            send(a, "v0", ARP, 10)
            send(a, "v0", SHORT, 5)
            found = drop.stop()
    too_short = 5 if operation == "parse-ip" else 0
    assert found["packets"] == COUNT + 15
    assert found["actions"]["XDP_DROP"] == COUNT + 15 - too_short
    assert found["actions"]["XDP_ABORTED"] == too_short
    assert found["losses"] == ({"XDP_ABORTED": 5} if too_short else {})
    assert sum(sum(cpu["actions"].values()) for cpu in found["cpus"]) == COUNT + 15
    driver = found["drivers"]["v1"]
    assert driver["rx_queue_0_xdp_packets"] == COUNT + 15
    assert driver["rx_queue_0_xdp_drops"] == COUNT + 15
    if "xdp_exception" not in found["start"]["not_counted"]:
        counted = found["events"].get("xdp_exception", {})
        assert counted == ({"XDP_ABORTED": 5} if too_short else {})


@pytest.mark.parametrize(
    ("operation", "access", "mode", "arrives"),
    [
        ("parse-ip", "dpa", "native", FRAME),
        ("swap-macs", "dpa", "skb", SWAPPED),
        ("swap-macs", "load-bytes", "native", SWAPPED),
    ],
    ids=["untouched", "swapped", "by calls"],
)
def test_pass_hands_packets_on_as_the_operation_leaves_them(
    operation: str, access: str, mode: str, arrives: bytes
) -> None:
    with places(2) as (a, b), packet_socket(join(a, "v0", b, "v1"), "v1") as hears:
        options = ("-p", operation, "-l", access, "-m", mode, "--json")
        with live(b, "pass", "v1", *options) as passing:
            send(a, "v0", FRAME, 100)
            # Whole packets that reach the stack, one by one.
            heard = [hears.recv(2000) for _ in range(100)]
            found = passing.stop()
    assert set(heard) == {arrives}
    assert found["packets"] == found["actions"]["XDP_PASS"] == 100
    assert found["start"]["mode"] == mode


@pytest.mark.parametrize("access", ["dpa", "load-bytes"])
def test_what_tx_sends_back_arrives_and_both_ends_count_the_same(access: str) -> None:
    with places(2) as (a, b):
        join(a, "v0", b, "v1")
        with (
            live(a, "pass", "v0", "--json") as back,
            live(b, "tx", "v1", "-l", access, "--json") as tx,
            packet_socket(a, "v0") as hears,
        ):
            assert tx.said == ["xdplab: tx on v1 (native)\n"]
            send(a, "v0", FRAME, COUNT)
            assert hears.recv(2000) == SWAPPED
            sent = tx.stop()
            arrived = back.stop()
    assert sent["packets"] == sent["actions"]["XDP_TX"] == COUNT
    assert sent["losses"] == {}
    assert arrived["packets"] == COUNT


def test_tx_to_a_peer_that_takes_nothing_says_so_before_and_after() -> None:
    with places(2) as (a, b):
        join(a, "v0", b, "v1")
        with live(b, "tx", "v1", "--json") as tx:
            assert "peer v0 has neither a native XDP program nor GRO" in tx.said[0]
            send(a, "v0", FRAME, COUNT)
            found = tx.stop()
    assert found["packets"] == COUNT
    if found["start"]["not_counted"]:
        pytest.skip(f"no tracepoints here: {found['start']['not_counted']}")
    assert found["losses"] == {"xdp_bulk_tx dropped, ENXIO": COUNT}
    assert found["drivers"]["v1"]["rx_queue_0_xdp_tx_errors"] == COUNT


def test_frames_of_many_pages_arrive_whole() -> None:
    frame = udp_frame("ipv4", 8900).data
    with (
        places(2) as (a, b),
        packet_socket(join(a, "v0", b, "v1", mtu=9000), "v1") as hears,
        packet_socket(a, "v0") as sends,
        live(b, "pass", "v1", "-p", "swap-macs", "-l", "load-bytes", "--json") as passing,
    ):
        assert passing.said[-1] == "xdplab: pass on v1 (native, frags)\n"
        heard = set()
        for _ in range(200):
            # One at a time: a socket's buffer does not hold two hundred of these.
            sends.send(frame)
            heard.add(hears.recv(9100))
        found = passing.stop()
    assert heard == {frame[6:12] + frame[:6] + frame[12:]}
    assert found["packets"] == 200
    assert found["start"]["frags"]
    assert found["losses"] == {}


def test_queues_are_counted_where_asked() -> None:
    with places(2) as (a, b):
        join(a, "v0", b, "v1", queues=2)
        with live(b, "drop", "v1", "-r", "--json") as drop, packet_socket(a, "v0") as sends:
            for priority in range(COUNT):
                # A veth hands a packet to the queue that the sender's own hash chose.
                flow = FRAME[:34] + priority.to_bytes(2, "big") + FRAME[36:]
                sends.send(flow)
            found = drop.stop()
    driver = found["drivers"]["v1"]
    queues = {
        number: driver[name]
        for number in "01"
        if driver.get(name := f"rx_queue_{number}_xdp_packets")
    }
    assert found["queues"] == queues
    assert sum(queues.values()) == COUNT


# --- how it ends


@pytest.mark.parametrize(
    ("number", "ending"),
    [
        (signal.SIGINT, ()),
        (signal.SIGTERM, ()),
        (signal.SIGHUP, ()),
        (signal.SIGINT, ("-d", "60")),
    ],
)
def test_a_signal_ends_it_with_its_true_totals(
    number: signal.Signals, ending: tuple[str, ...]
) -> None:
    with places(2) as (a, b):
        join(a, "v0", b, "v1")
        with live(b, "drop", "v1", *ending) as drop:
            send(a, "v0", FRAME, COUNT)
            drop.send_signal(number)
            status, stdout, _ = drop.rest()
        assert not b.programs("v1")
    # Asked to go on for a minute, it was cut short; else a signal is its only end.
    assert status == (130 if ending else 0)
    assert f"v1: {COUNT:,} packets in " in stdout
    assert f"XDP_DROP {COUNT:,}" in stdout


def test_it_ends_by_itself_after_a_time_or_a_number_of_packets() -> None:
    with places(2) as (a, b):
        join(a, "v0", b, "v1")
        with live(b, "drop", "v1", "-n", "100", "--json") as drop:
            send(a, "v0", FRAME, 150)
            found = drop.summary()
            assert found["ended_by"] == "packets"
            assert 100 <= found["packets"] <= 150
        result = run(b, "drop", "v1", "-d", "0.3", "-i", "0.1")
        assert result.returncode == 0
        *lines, summary = result.stdout.splitlines()
        assert [line.split()[:3] for line in lines][:2] == [["0.1", "s", "v1"], ["0.2", "s", "v1"]]
        assert summary.startswith("v1: 0 packets in 0.3 s")
        assert "its time was over" in summary


def test_a_reader_that_goes_away_ends_it_quietly() -> None:
    with places(2) as (a, b):
        join(a, "v0", b, "v1")
        with b.namespace:
            process = subprocess.Popen(
                [XDPLAB, "drop", "v1", "-i", "0.05", "--no-store"],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env=environment(),
            )
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().endswith("err,drop/s\n")
        process.stdout.close()
        assert process.stderr.read() == "xdplab: drop on v1 (native)\n"
        process.stderr.close()
        assert process.wait(30) == 0
        assert not b.programs("v1")


def test_a_full_disk_ends_it_and_its_totals_are_said() -> None:
    with places(2) as (a, b):
        join(a, "v0", b, "v1")
        with b.namespace, open("/dev/full", "w") as full:  # noqa: PTH123 - nothing is created
            process = subprocess.Popen(
                [XDPLAB, "drop", "v1", "-n", str(COUNT)],
                stdout=full,
                stderr=subprocess.PIPE,
                text=True,
                env=environment(),
            )
        assert process.stderr is not None
        assert process.stderr.readline() == "xdplab: drop on v1 (native)\n"
        send(a, "v0", FRAME, COUNT)
        _, stderr = process.communicate(timeout=30)
    assert process.returncode == 3
    assert "writing the output failed: No space left on device. " in stderr
    assert f"Until then {COUNT:,} packets came in: XDP_DROP {COUNT:,}" in stderr


def test_a_file_that_cannot_be_written_is_said_before_anything_is_touched(tmp_path: Path) -> None:
    with places(2) as (a, b):
        join(a, "v0", b, "v1")
        refused = run(b, "drop", "v1", "--json", str(tmp_path / "nowhere" / "lines"))
        assert refused.returncode == 2
        assert "cannot be written" in refused.stderr
        target = tmp_path / "lines"
        done = run(b, "drop", "v1", "-d", "0.1", "-i", "0.1", "--json", str(target))
        assert done.stdout.startswith("     0.1 s  v1")
        kinds = [json.loads(line)["type"] for line in target.read_text().splitlines()]
        assert kinds == ["start", "interval", "summary"]
        kept = target.read_text()
        with live(b, "pass", "v1"):
            assert run(b, "drop", "v1", "--json", str(target)).returncode == 2
        # What was refused has not written over what an earlier run had.
        assert target.read_text() == kept


def test_a_reader_that_reads_nothing_does_not_keep_it_from_ending() -> None:
    with places(2) as (a, b):
        join(a, "v0", b, "v1")
        with live(b, "drop", "v1", "--json", "-i", "0.05") as drop:
            assert drop.process.stdout is not None
            pipe = drop.process.stdout.fileno()
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, 4096)

            def filled() -> int:
                return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)

            # Lines come twenty times a second, until one finds no room and waits.
            before = -1
            while filled() > before or before < 2048:
                before = filled()
                time.sleep(0.3)
            for _ in range(2):
                drop.send_signal(signal.SIGTERM)
                time.sleep(0.2)
            assert drop.process.wait(30) == 130
            assert not b.programs("v1")


def test_an_interface_that_is_removed_ends_it_and_what_it_counted_is_shown() -> None:
    with places(2) as (a, b):
        join(a, "v0", b, "v1")
        with live(b, "drop", "v1", "-i", "0.1", "--json") as drop:
            send(a, "v0", FRAME, COUNT)
            a.netlink.link("del", index=a.ifindex("v0"))
            status, stdout, stderr = drop.rest()
    assert status == 3
    assert "an interface was removed" in stderr
    assert '"ended_by": "interface removed", ' in stdout
    assert f'"packets": {COUNT},' in stdout.splitlines()[-1]


def test_quit_switches_to_extended_lines_and_back() -> None:
    with places(2) as (a, b):
        join(a, "v0", b, "v1")
        with live(b, "drop", "v1", "-i", "0.1") as drop:
            assert drop.process.stdout is not None

            def lines_until_next() -> list[str]:
                """Lines from one interval's to the next one's, which packets came in."""
                send(a, "v0", FRAME, 50)
                found = []
                assert drop.process.stdout is not None
                for line in drop.process.stdout:
                    found.append(line)
                    if re.match(r" *\d+\.\d s  v1  ", line) and " 0 rx/s" not in line:
                        break
                return found

            lines_until_next()
            drop.send_signal(signal.SIGQUIT)
            extended: list[str] = []
            # Packets may be told of in more intervals than one, and signals come when they come.
            for _ in range(10):
                extended += lines_until_next()
                if any("v1's driver: rx_queue_0_xdp_drops" in line for line in extended):
                    break
            drop.send_signal(signal.SIGINT)
            drop.rest()
    assert any("XDP_DROP " in line for line in extended)
    assert any(re.search(r"cpu \d+ [\d,]+/s", line) for line in extended)
    assert any("v1's driver: rx_queue_0_xdp_drops" in line for line in extended)


# --- what it does not do


def test_an_interface_with_a_program_is_left_as_it_is() -> None:
    with places(2) as (a, b):
        join(a, "v0", b, "v1")
        with live(b, "drop", "v1", "--json") as first:
            before = b.programs("v1")
            second = run(b, "pass", "v1")
            assert second.returncode == 2
            assert "v1 has an XDP program already (native, id" in second.stderr
            assert '"xdplab_live"' in second.stderr
            assert b.programs("v1") == before
            send(a, "v0", FRAME, 10)
            assert first.stop()["packets"] == 10


def test_the_default_route_is_taken_only_when_that_is_meant() -> None:
    with places(2) as (a, b):
        join(a, "v0", b, "v1")
        index = b.ifindex("v1")
        b.netlink.addr("add", index=index, address="192.0.2.1", prefixlen=24)
        b.netlink.route("add", dst="default", gateway="192.0.2.2")
        refused = run(b, "drop", "v1", "-d", "0.1")
        assert refused.returncode == 2
        assert "v1 was not touched: it carries the default route" in refused.stderr
        assert run(b, "drop", "v1", "-d", "0.1", "--yes-this-interface").returncode == 0


def test_no_native_xdp_is_said_and_skb_does_it() -> None:
    with places(1) as (a,):
        a.set("lo", state="up")
        refused = run(a, "drop", "lo", "-d", "0.1")
        assert refused.returncode == 3
        assert "no native XDP" in refused.stderr
        assert "-m skb" in refused.stderr
        with live(a, "drop", "lo", "-m", "skb", "--json") as drop:
            with a.namespace, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sends:
                sends.sendto(b"x", ("127.0.0.1", 9))
            assert drop.stop()["actions"]["XDP_DROP"] == 1


def test_an_interface_that_is_down_is_said() -> None:
    with places(2) as (a, b):
        join(a, "v0", b, "v1")
        b.set("v1", state="down")
        assert "v1 is down: no packet passes it" in run(b, "drop", "v1", "-d", "0.05").stderr
        b.set("v1", state="up")
        a.set("v0", state="down")
        assert "v1 has no carrier" in run(b, "drop", "v1", "-d", "0.05").stderr


def test_without_the_right_to_trace_it_counts_all_the_same() -> None:
    rights = "-all,+bpf,+net_admin"
    prefix = ("setpriv", f"--bounding-set={rights}", "--inh-caps=-all", "--ambient-caps=-all")
    with places(2) as (a, b):
        join(a, "v0", b, "v1")
        with live(b, "tx", "v1", "--json", prefix=prefix) as tx:
            said = "".join(tx.said)
            send(a, "v0", FRAME, COUNT)
            found = tx.stop()
    assert "xdp_exception is not counted here: " in said
    assert "CAP_PERFMON" in found["start"]["not_counted"]["xdp_bulk_tx"]
    assert found["packets"] == COUNT
