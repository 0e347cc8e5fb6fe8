"""Packets through AF_XDP sockets: what is sent is what is received, byte for byte."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from tests.net.sockets import all_of, line, packet
from xdplab.errors import UsageError
from xdplab.net import Tally, Umem, Xsk, drop_loop, send_back_loop
from xdplab.net.generators.base import Factory, Outlet, Sender
from xdplab.net.generators.programs import FramesGenerator, SkbGenerator
from xdplab.net.generators.ring import RingGenerator
from xdplab.net.topology import Topology
from xdplab.packets.traffic import Flows, Span

pytestmark = pytest.mark.needs_kernel


@pytest.mark.parametrize("program_mode", ["native", "generic"])
@pytest.mark.parametrize("need_wakeup", [True, False])
def test_packets_arrive_as_they_were_sent(program_mode: str, need_wakeup: bool) -> None:
    sent = [packet(number, 60 + number) for number in range(300)]
    with line() as pairs:
        receiver = pairs.attach("v0", program_mode=program_mode, need_wakeup=need_wakeup)
        sender = pairs.sender(need_wakeup=need_wakeup)
        assert sender.send(sent) == 300
        assert all_of(receiver, 300) == sent
        assert sender.flush()
        assert receiver.statistics().lost == 0
        assert not receiver.is_zero_copy


def test_a_matrix_is_sent_row_by_row() -> None:
    rows = np.frombuffer(b"".join(packet(number) for number in range(1500)), np.uint8)
    with line() as pairs:
        receiver = pairs.attach("v0")
        sender = pairs.sender()
        assert sender.send(rows.reshape(1500, 64)) == 1500
        assert b"".join(all_of(receiver, 1500)) == rows.tobytes()


def test_a_batch_is_a_sequence_of_views() -> None:
    with line() as pairs:
        receiver = pairs.attach("v0", mode="copy")
        pairs.sender().send([packet(number, 60 + 10 * number) for number in range(8)])
        with receiver.receive(5, timeout_s=5) as batch:
            assert len(batch) == 5
            assert batch.lengths.tolist() == [60, 70, 80, 90, 100]
            assert bytes(batch[-1]) == packet(4, 100)
            assert [bytes(one) for one in batch] == [bytes(batch[at]) for at in range(5)]
            batch[2][0] = 0xEE
            assert receiver.umem.data[batch.descriptors["addr"][2]] == 0xEE
            with pytest.raises(IndexError):
                batch[5]
        assert not len(batch)
        batch.release()
        with receiver.receive() as rest:
            assert [len(one) for one in rest] == [110, 120, 130]


def test_heads_of_short_packets_end_in_zeros() -> None:
    with line() as pairs:
        receiver = pairs.attach("v0")
        sender = pairs.sender()
        # The frames hold 0xff wherever nothing is received into.
        receiver.umem.data[:] = 0xFF
        sender.send([packet(1, 20), packet(2, 100)])
        with receiver.receive(timeout_s=5) as batch:
            heads = batch.heads(64)
            assert heads[0].tobytes() == packet(1, 20) + bytes(44)
            assert heads[1].tobytes() == packet(2, 100)[:64]
            batch.write_heads(heads[:, ::-1][:, :20])
            assert bytes(batch[1])[20:] == packet(2, 100)[20:]
            with pytest.raises(UsageError, match="21 bytes into every packet .* one has 20"):
                batch.write_heads(heads[:, :21])
            with pytest.raises(UsageError, match="a frame has 1 to 1792"):
                batch.heads(1793)


def test_frames_come_back_however_many_packets_come() -> None:
    with line() as pairs:
        receiver = pairs.attach("v0", rx_ring=64)
        sender = pairs.sender(tx_ring=64)
        for turn in range(40):
            sent = [packet(number) for number in range(turn, turn + 50)]
            assert sender.send(sent) == 50
            assert all_of(receiver, 50) == sent
        assert receiver.statistics().rx_fill_ring_empty == 0
        assert sender.flush()
        assert sender.sending == 0
        assert sender.umem.free == sender.umem.frames


def test_what_nobody_takes_is_counted() -> None:
    with line() as pairs:
        receiver = pairs.attach("v0", rx_ring=64)
        pairs.sender().send([packet(number) for number in range(200)])
        assert len(receiver.receive()) == 64
        assert receiver.statistics().rx_ring_full == 136
        assert receiver.statistics().as_dict()["rx_ring_full"] == 136


@pytest.mark.parametrize("frags", [False, True])
@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_of_nothing_takes_nothing(frags: bool, limit: int) -> None:
    with line() as pairs:
        receiver = pairs.attach("v0", frags=frags)
        pairs.sender(frags=frags).send([packet(0)])
        assert receiver.wait(5)
        assert not len(receiver.receive(limit))
        assert all_of(receiver, 1) == [packet(0)]


def test_nothing_comes_where_nothing_is_sent() -> None:
    with line() as pairs:
        receiver = pairs.attach("v0")
        assert not receiver.wait(0.01)
        assert not len(receiver.receive(timeout_s=0.01))


# --- packets of several frames


def test_jumbo_packets_take_several_descriptors() -> None:
    sizes = [9000, 60, 1792, 1793, 9014, 4000, 61]
    sent = [packet(number, size) for number, size in enumerate(sizes)]
    with line(mtu=9000) as pairs:
        receiver = pairs.attach("v0", frags=True)
        sender = pairs.sender(frags=True)
        assert sender.send(sent) == len(sent)
        with receiver.receive(timeout_s=5) as batch:
            assert len(batch) == len(sent)
            assert batch.lengths.tolist() == sizes
            assert [len(batch.pieces(at)) for at in range(4)] == [6, 1, 1, 2]
            assert [bytes(one) for one in batch] == sent
            assert batch.heads(20).tobytes() == b"".join(one[:20] for one in sent)


def test_jumbo_packets_wrap_round_small_rings() -> None:
    with line(mtu=9000) as pairs:
        receiver = pairs.attach("v0", frags=True, rx_ring=32)
        sender = pairs.sender(frags=True, tx_ring=32)
        for number in range(100):
            sent = [packet(number, 9000 + number % 14), packet(number, 70)]
            assert sender.send(sent) == 2
            assert all_of(receiver, 2) == sent
        assert sender.flush()
        assert sender.umem.free == sender.umem.frames


def test_a_limit_counts_packets_not_descriptors() -> None:
    with line(mtu=9000) as pairs:
        receiver = pairs.attach("v0", frags=True)
        pairs.sender(frags=True).send([packet(number, 5000) for number in range(5)])
        for expected in (2, 2, 1):
            with receiver.receive(2, timeout_s=5) as batch:
                assert len(batch) == expected
                assert len(batch.descriptors) == 3 * expected


def test_a_jumbo_packet_is_lost_where_frags_were_not_asked_for() -> None:
    with line(mtu=3000) as pairs:
        receiver = pairs.attach("v0")
        pairs.sender(umem=Umem(64, chunk_bytes=4096)).send([packet(1, 2000), packet(2, 60)])
        assert all_of(receiver, 1) == [packet(2, 60)]
        assert receiver.statistics().rx_dropped == 1


@pytest.mark.parametrize("frags", [False, True])
def test_packets_that_no_frame_holds_are_refused(frags: bool) -> None:
    most = 17 * 1792 if frags else 1792
    with line(mtu=9000) as pairs:
        sender = pairs.sender(frags=frags)
        for wrong in (b"", bytes(most + 1)):
            with pytest.raises(UsageError, match=f"packet of {len(wrong)} bytes .* 1 to {most}"):
                sender.send([wrong])
        with pytest.raises(UsageError, match=f"1 to {most}"):
            sender.send(np.zeros((2, most + 1), np.uint8))
        assert sender.umem.free == sender.umem.frames


# --- packets sent on


def test_packets_go_on_by_another_socket_without_a_copy() -> None:
    with line() as pairs, Umem(512) as umem:
        incoming = pairs.attach("v0", umem=umem, rx_ring=64)
        outgoing = pairs.open("v2", umem=umem, rx_ring=0, tx_ring=64)
        sink = pairs.attach("v3")
        sender = pairs.sender()
        for turn in range(30):
            sent = [packet(number) for number in range(turn, turn + 60)]
            sender.send(sent)
            passed = 0
            while passed < 60:
                with incoming.receive(timeout_s=5) as batch:
                    assert len(batch)
                    passed += outgoing.forward(batch)
                    assert not len(batch)
                outgoing.kick()
            assert all_of(sink, 60) == sent
        assert outgoing.flush()
        assert incoming.statistics().lost == 0
        # Every frame is where it belongs: waiting to be received into, or free.
        assert umem.free + incoming.fill.pending == umem.frames
        outgoing.close()
        incoming.close()


def test_what_the_tx_ring_has_no_room_for_stays_in_the_batch() -> None:
    with line() as pairs, Umem(512) as umem:
        incoming = pairs.attach("v0", umem=umem, rx_ring=128)
        outgoing = pairs.open("v2", umem=umem, rx_ring=0, tx_ring=16)
        pairs.sender().send([packet(number) for number in range(20)])
        with incoming.receive(timeout_s=5) as batch:
            assert outgoing.forward(batch) == 16
            assert [bytes(one) for one in batch] == [packet(number) for number in range(16, 20)]
        outgoing.close()
        incoming.close()


def test_frames_are_written_in_place_and_submitted_by_hand() -> None:
    with line() as pairs:
        receiver = pairs.attach("v0")
        sender = pairs.sender(tx_ring=16)
        descriptors = sender.frames(20)
        for number, at in enumerate(descriptors["addr"].tolist()):
            sender.umem.data[at : at + 64] = np.frombuffer(packet(number), np.uint8)
        descriptors["len"] = 64
        with pytest.raises(UsageError, match="20 descriptors .* room for 16"):
            sender.submit(descriptors)
        sender.submit(descriptors[:16])
        sender.kick()
        assert all_of(receiver, 16) == [packet(number) for number in range(16)]


def test_a_umem_without_a_frame_to_send_says_so() -> None:
    with line() as pairs, Umem(128) as umem:
        xsk = pairs.attach("v0", umem=umem, rx_ring=64, tx_ring=64)
        with pytest.raises(UsageError, match="128 frames none is free"):
            xsk.send([packet(0)])
        xsk.close()


def test_only_sockets_on_one_umem_pass_packets_on() -> None:
    with line() as pairs:
        receiver = pairs.attach("v0")
        other = pairs.open("v2", tx_ring=64)
        pairs.sender().send([packet(0)])
        with (
            receiver.receive(timeout_s=5) as batch,
            pytest.raises(UsageError, match="from v0 to v2 .* do not share a umem"),
        ):
            other.forward(batch)


# --- loops


def test_the_drop_loop_counts_every_packet_and_byte() -> None:
    with line() as pairs:
        receiver = pairs.attach("v0", rx_ring=4096)
        sender = pairs.sender(tx_ring=2048)
        rows = np.tile(np.frombuffer(packet(7, 80), np.uint8), (2000, 1))
        tally = Tally()
        for _ in range(50):
            assert sender.send(rows, timeout_s=10) == 2000
            drop_loop(receiver, tally, packets=2000, seconds=30)
        assert (tally.packets, tally.bytes) == (100_000, 8_000_000)
        assert receiver.statistics().lost == 0


@pytest.mark.parametrize("generator", [FramesGenerator, SkbGenerator, RingGenerator])
def test_no_packet_of_a_run_is_unaccounted_for(generator: Factory) -> None:
    packets = 200_000
    with Topology() as topology:
        outlet = Outlet("v1", topology.ports["v1"].ifindex, topology.namespace_fd("v1"))
        flow = Flows(Span(0xC0000201), Span(0xC6120001), destination_mac=topology.ports["v0"].mac)
        with topology.inside("v0"):
            receiver = Xsk.attach("v0", rx_ring=8192)
        tally = Tally()
        with receiver, generator(outlet, flow) as source:
            with Sender(source, outlet, packets=packets) as sender:
                drop_loop(receiver, tally, stop=lambda: sender.is_done, seconds=60)
                assert sender.wait(60)
            drop_loop(receiver, tally, seconds=0.2)
            sent = source.sent()
            assert sent.generated == packets
            assert sent.accepted == tally.packets + receiver.statistics().lost
            assert tally.bytes == 64 * tally.packets


def test_the_drop_loop_counts_packets_of_several_frames_once() -> None:
    with line(mtu=9000) as pairs:
        receiver = pairs.attach("v0", frags=True)
        pairs.sender(frags=True).send([packet(number, 9000) for number in range(20)])
        tally = Tally()
        drop_loop(receiver, tally, packets=20, seconds=30)
        assert (tally.packets, tally.bytes) == (20, 180_000)


def test_the_drop_loop_ends_when_it_is_told_or_its_time_is_over() -> None:
    with line() as pairs:
        receiver = pairs.attach("v0")
        tally = Tally()
        drop_loop(receiver, tally, seconds=0.01)
        drop_loop(receiver, tally, stop=lambda: tally.naps > 0)
        drop_loop(receiver, tally, packets=0)
        assert tally.packets == 0
        assert tally.naps > 0


def test_send_back_swaps_the_addresses() -> None:
    with line() as pairs:
        mirror = pairs.attach("v0", tx_ring=512)
        here = pairs.attach("v1", tx_ring=512)
        tally = Tally()
        for turn in range(10):
            sent = [packet(number) for number in range(turn, turn + 100)]
            here.send(sent)
            send_back_loop(mirror, tally, packets=100, seconds=30)
            expected = [one[6:12] + one[:6] + one[12:] for one in sent]
            assert all_of(here, 100) == expected
        assert (tally.packets, tally.sent, tally.bytes) == (1000, 1000, 64_000)


def test_a_socket_waits_in_other_peoples_loops() -> None:
    async def first_packet(receiver: Xsk, sender: Xsk) -> bytes:
        came = asyncio.get_running_loop().create_future()
        loop = asyncio.get_running_loop()

        def read() -> None:
            with receiver.receive() as batch:
                if len(batch) and not came.done():
                    came.set_result(bytes(batch[0]))

        loop.add_reader(receiver, read)
        loop.call_soon(sender.send, [packet(3)])
        try:
            return await asyncio.wait_for(came, 10)
        finally:
            loop.remove_reader(receiver)

    with line() as pairs:
        assert asyncio.run(first_packet(pairs.attach("v0"), pairs.sender())) == packet(3)
