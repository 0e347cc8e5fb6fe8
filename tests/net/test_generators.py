"""Generators send what they were asked for: as many, of these bytes, in this order."""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.net.lab import Lab, lab
from xdplab.errors import KernelError, NotPossibleError
from xdplab.kernel.libbpf import LoadedObject
from xdplab.net.generators.base import Factory, Outlet, Pace, Sender
from xdplab.net.generators.pktgen import PROC, PktgenGenerator
from xdplab.net.generators.programs import FramesGenerator, SkbGenerator
from xdplab.net.generators.ring import RingGenerator
from xdplab.packets.traffic import Captured, Flows, Span, Traffic
from xdplab.program import compile_object, read_object

needs_kernel = pytest.mark.needs_kernel
GENERATORS: dict[str, Factory] = {
    "frames": FramesGenerator,
    "skb": SkbGenerator,
    "ring": RingGenerator,
}
each = pytest.mark.parametrize("name", GENERATORS)


# --- how many


@needs_kernel
@each
@pytest.mark.parametrize("way", ["drop", "tx", "redirect"])
def test_every_packet_arrives_at_the_device_and_at_the_end(name: str, way: str) -> None:
    programs = {"v0": way, "v1": "sink_drop", "v3": "sink_drop"}
    if way == "drop":
        del programs["v1"]
    with lab(programs) as made, GENERATORS[name](made.outlet, made.traffic("v0")) as generator:

        def are_all_there(packets: int) -> bool:
            device, sink, before = made.device, made.sink, generator.sent()
            with made.topology.inside("v1"):
                generator.burst(packets)
            sent = generator.sent()
            accepted = sent.accepted - before.accepted
            # Who sends until all are taken made more; who counts what was not taken sent less.
            refused = sent.refused - before.refused
            assert packets in (sent.generated - before.generated, accepted)
            settled(made, sent.accepted, of_sink=False)
            assert made.device - device == accepted
            if way == "drop":
                return refused == 0
            return settled(made, sink + packets, of_sink=True) == sink + packets

        # Whole batches, parts of them, one, and more than a ring has. A busy machine may leave
        # a ring to ksoftirqd for a while, and it overflows: once of some times it does not.
        for packets in (1, 63, 64, 65, 1000, 20_011):
            assert any(are_all_there(packets) for _ in range(5))


def settled(made: Lab, total: int, of_sink: bool) -> int:
    """The count at the end once it is complete; a busy machine leaves the rest to ksoftirqd."""
    until = time.monotonic() + 3
    while (made.sink if of_sink else made.device) < total and time.monotonic() < until:
        time.sleep(0.001)
    return made.sink if of_sink else made.device


@needs_kernel
def test_what_the_interface_refuses_is_counted() -> None:
    # v0 has no program: v1 takes no live frame.
    with lab() as made, FramesGenerator(made.outlet, made.traffic("v0")) as generator:
        with made.topology.inside("v1"):
            generator.burst(1000)
        sent = generator.sent()
        assert (sent.generated, sent.refused, sent.accepted) == (1000, 1000, 0)
        assert generator.last_error != 0


@needs_kernel
def test_a_ring_that_nobody_empties_is_an_error_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xdplab.net.generators.ring._PATIENCE_S", 0.05)
    from pyroute2 import IPRoute

    with (
        lab() as made,
        RingGenerator(made.outlet, made.traffic("v0")) as generator,
        made.topology.inside("v1") as port,
    ):
        with IPRoute() as netlink:
            netlink.link("set", index=port.ifindex, state="down")
        with pytest.raises(KernelError, match="transmit ring"):
            generator.burst(10)


# --- which bytes


@contextlib.contextmanager
def listening(made: Lab) -> Iterator[socket.socket]:
    """A packet socket on v0, whose program passes packets on to it."""
    made.attach("v0", "sink_pass")
    with made.topology.inside("v0") as port:
        every = socket.htons(3)
        opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, every)
        opened.bind((port.name, 3))
    # PACKET_AUXDATA tells of VLAN tags, which the stack takes out of the packet.
    opened.setsockopt(263, 8, 1)
    # SO_RCVBUFFORCE: a live frame takes a page, however short it is.
    opened.setsockopt(socket.SOL_SOCKET, 33, 1 << 24)
    opened.settimeout(10)
    with opened:
        yield opened


def received(opened: socket.socket) -> bytes:
    """The next frame as it was on the wire, its outer tag put back."""
    data, ancillary, _flags, _address = opened.recvmsg(70_000, 256)
    for level, kind, content in ancillary:
        if (level, kind) == (263, 8):
            status, _len, _snap, _mac, _net, tag, protocol = struct.unpack_from("=IIIHHHH", content)
            if status & 0x10:  # TP_STATUS_VLAN_VALID
                return data[:12] + struct.pack(">HH", protocol, tag) + data[12:]
    return data


def kinds(made: Lab) -> dict[str, Traffic]:
    """Traffic of every sort that a generator must be able to make."""
    mac = made.topology.ports["v0"].mac
    ports, more = Span(1000, 3), Span(65533, 3)
    v6 = int.from_bytes(socket.inet_pton(socket.AF_INET6, "2001:db8::ffff:fffe"), "big")
    return {
        "one flow": Flows(Span(1), Span(2), destination_mac=mac),
        "an odd size": Flows(Span(1, 2), Span(2), frame_bytes=61, destination_mac=mac),
        "flows": Flows(
            Span(0xC00002FE, 4), Span(5, 2), source_port=ports, destination_port=more,
            destination_mac=mac,
        ),
        "tcp": Flows(
            Span(1, 2), Span(2), protocol="tcp", source_port=ports, frame_bytes=101,
            destination_mac=mac,
        ),
        "ipv6": Flows(
            Span(v6, 2), Span(v6), ipv6=True, source_port=ports, frame_bytes=1514,
            destination_mac=mac,
        ),
        "vlan": Flows(
            Span(1), Span(2), source_port=ports, vlans=(7,), frame_bytes=100, destination_mac=mac
        ),
        "qinq, ipv6, tcp": Flows(
            Span(v6), Span(v6, 2), ipv6=True, protocol="tcp", vlans=(7, 8), source_port=ports,
            frame_bytes=82, destination_mac=mac,
        ),
        "a capture": Captured(
            [
                Flows(
                    Span(1), Span(2), source_port=Span(port), frame_bytes=60 + 97 * port,
                    destination_mac=mac,
                ).first_frame
                for port in (5, 0, 3, 9)
            ]
        ),
    }  # fmt: skip


@needs_kernel
@each
def test_packets_arrive_byte_for_byte_in_turn(name: str) -> None:
    with lab() as made, listening(made) as opened:
        for kind, traffic in kinds(made).items():
            count = min(2 * traffic.count + 1, 80)
            with GENERATORS[name](made.outlet, traffic) as generator:
                with made.topology.inside("v1"):
                    # In two bursts: a generator goes on where it stopped.
                    generator.burst(3)
                    generator.burst(count - 3 if count > 3 else 1)
                for index in range(max(count, 4)):
                    assert received(opened) == traffic.frame(index), (kind, index)


@needs_kernel
def test_frames_that_come_back_changed_go_out_right(tmp_path: Path) -> None:
    """Whoever gets a live frame may change it, and its page comes back to the generator."""
    source = tmp_path / "spoil.bpf.c"
    source.write_text(SPOILING)
    spoiling = read_object(compile_object(source), "spoil")
    with lab() as made, LoadedObject(spoiling) as loaded:
        made.topology.attach("v0", loaded.prog_fd("spoil"))
        with (
            FramesGenerator(made.outlet, made.traffic("v0")) as generator,
            made.topology.inside("v1"),
        ):
            generator.burst(1000)
        assert (loaded.read("right"), loaded.read("wrong")) == (1000, 0)


SPOILING = """
#include <linux/bpf.h>
char _license[] __attribute__((section("license"), used)) = "GPL";
__u64 right, wrong;
__attribute__((section("xdp"), used)) int spoil(struct xdp_md *ctx)
{
	volatile __u8 *start = (void *)(long)ctx->data;

	if ((void *)(start + 64) > (void *)(long)ctx->data_end)
		return XDP_ABORTED;
	if (start[12] == 8 && start[13] == 0 && start[36] == 0 && start[37] == 9)
		right++;
	else
		wrong++;
	for (int place = 0; place < 60; place++)
		start[place] = 0xff;
	return XDP_DROP;
}
"""


@needs_kernel
@pytest.mark.parametrize("name", ["frames", "skb"])
def test_jumbo_frames_are_refused_with_the_generator_that_can(name: str) -> None:
    with lab() as made, pytest.raises(NotPossibleError, match="Take the generator ring"):
        GENERATORS[name](made.outlet, made.traffic("v0", frame_bytes=9000))


@needs_kernel
def test_a_ring_sends_jumbo_frames() -> None:
    with lab({"v0": "drop"}, mtu_bytes=9000) as made:
        traffic = made.traffic("v0", frame_bytes=9014)
        with RingGenerator(made.outlet, traffic) as generator, made.topology.inside("v1"):
            generator.burst(700)
        assert settled(made, 700, of_sink=False) == 700
        with listening(made) as opened, RingGenerator(made.outlet, traffic) as generator:
            with made.topology.inside("v1"):
                generator.burst(3)
            for index in range(3):
                assert received(opened) == traffic.frame(index)
        # The driver counts them without the Ethernet header.
        assert made.topology.counters("v0")["rx_xdp_bytes"] == 703 * 9000


# --- how fast


def test_a_pace_keeps_its_rate_whatever_comes_in_between() -> None:
    pace = Pace(1_000_000, chunk=4096, made_up_s=0.02)
    now_s, made = 5.0, 0
    for pause_s in (0.0,) + (0.001, 0.0002, 0.5, 0.0, 0.003) * 3 + (0.0,) * 600:
        now_s += pause_s
        due = pace.due(now_s, made)
        # Never so many at once that a queue would not hold them.
        assert 0 <= due <= 4096
        made += due
    assert made == pytest.approx((now_s - 5.0) * 1e6, abs=2)


def test_a_pace_without_a_rate_always_has_a_chunk() -> None:
    pace = Pace(None, chunk=100, made_up_s=0.02)
    assert [pace.due(second, 100 * second) for second in range(3)] == [100, 100, 100]
    assert pace.wait_s(1.0, 100) == 0


def test_a_slow_pace_sleeps_until_the_next_packet() -> None:
    pace = Pace(2.0, chunk=100, made_up_s=0.02)
    assert pace.due(10.0, 0) == 1
    assert pace.wait_s(10.0, 1) == pytest.approx(0.5)
    assert pace.due(10.4, 1) == 0
    assert pace.due(10.5, 1) == 1


class Recording:
    """A generator that counts and takes no time."""

    name = "recording"
    chunk = 1000
    made_up_s = 0.02

    def __init__(self, failing: bool = False) -> None:
        self.made = 0
        self._failing = failing

    def burst(self, packets: int) -> None:
        if self._failing:
            raise KernelError("sending", 5)
        self.made += packets


def test_a_sender_makes_just_as_many_as_it_should() -> None:
    generator = Recording()
    sender = Sender(generator, Outlet("any", 1), packets=12_345)  # type: ignore[arg-type]
    sender.start()
    assert sender.wait(30)
    assert generator.made == 12_345
    sender.stop()


def test_a_sender_at_a_rate_makes_what_is_due_and_no_more() -> None:
    generator = Recording()
    begun = time.monotonic()
    with Sender(generator, Outlet("any", 1), rate_pps=20_000):  # type: ignore[arg-type]
        time.sleep(0.3)
        made, lasted_s = generator.made, time.monotonic() - begun
    assert 0 < made <= 20_000 * lasted_s + 1


def test_what_ends_a_sender_comes_out_of_it() -> None:
    sender = Sender(Recording(failing=True), Outlet("any", 1))  # type: ignore[arg-type]
    sender.start()
    with pytest.raises(KernelError, match="sending"):
        sender.wait(30)
    sender.stop()


@needs_kernel
@pytest.mark.parametrize("name", GENERATORS)
def test_a_sender_stops_when_it_is_told(name: str) -> None:
    with (
        lab({"v0": "drop"}) as made,
        GENERATORS[name](made.outlet, made.traffic("v0")) as generator,
    ):
        with Sender(generator, made.outlet):
            while made.device < 1000:
                time.sleep(0.001)
        after = generator.sent()
        assert settled(made, after.accepted, of_sink=False) == after.accepted
        assert generator.sent() == after


# --- the kernel's own


def test_pktgen_is_told_what_to_send(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _pid: {3, 5})
    for name in ("kpktgend_3", "pgctrl", "v1"):
        (tmp_path / name).write_text("")
    written: list[tuple[str, str]] = []
    real = Path.write_text

    def write_text(self: Path, text: str) -> int:
        written.append((self.name, text))
        if (self.name, text) == ("pgctrl", "start\n"):
            real(
                tmp_path / "v1",
                "Params: count 500\nCurrent:\n     pkts-sofar: 498  errors: 2\n"
                "Result: OK: 20(c20+d0) usec, 498 (60byte,0frags)\n",
            )
        return len(text)

    monkeypatch.setattr(Path, "write_text", write_text)
    flows = Flows(
        Span(0xC0000201, 2), Span(0xC6120001), source_port=Span(1000, 10), vlans=(7, 8),
        frame_bytes=100,
    )  # fmt: skip
    with PktgenGenerator(Outlet("v1", 2), flows, tmp_path) as generator:
        generator.burst(500)
        assert (generator.sent().generated, generator.sent().refused) == (500, 2)
    assert written[0] == ("kpktgend_3", "add_device v1\n")
    assert written[-3:] == [
        ("v1", "count 500\n"), ("pgctrl", "start\n"), ("kpktgend_3", "rem_device_all\n"),
    ]  # fmt: skip
    told = {text.strip() for name, text in written if name == "v1"}
    assert told >= {
        "pkt_size 100", "src_min 192.0.2.1", "src_max 192.0.2.2", "dst_min 198.18.0.1",
        "dst_max 198.18.0.1", "udp_src_min 1000", "udp_src_max 1010", "udp_dst_min 9",
        "udp_dst_max 9", "vlan_id 8", "svlan_id 7", "clone_skb 0", "delay 0",
    }  # fmt: skip


def test_pktgen_says_when_the_kernel_has_none(tmp_path: Path) -> None:
    with pytest.raises(NotPossibleError, match="modprobe pktgen"):
        PktgenGenerator(Outlet("v1", 2), Flows(Span(1), Span(2)), tmp_path)
    with pytest.raises(NotPossibleError, match="no TCP and no captures"):
        PktgenGenerator(Outlet("v1", 2), Captured([bytes(60)]), tmp_path)


@needs_kernel
@pytest.mark.skipif(not PROC.exists(), reason="this kernel has no pktgen (CONFIG_NET_PKTGEN)")
def test_pktgen_sends_exactly() -> None:
    with lab({"v0": "drop"}) as made:
        with PktgenGenerator(made.outlet, made.traffic("v0")) as generator:
            with made.topology.inside("v1"):
                generator.burst(10_000)
            assert generator.sent().accepted == 10_000
        assert settled(made, 10_000, of_sink=False) == 10_000
