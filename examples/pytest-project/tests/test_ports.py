"""The filter does what it says, and does not become dearer."""

from __future__ import annotations

import socket

import pytest
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Packet

FILTER = "../src/ports.bpf.c"


def to_port(port: int, layer: type[Packet] = UDP) -> bytes:
    # Without addresses scapy asks the network for them, by ARP, and waits for an answer.
    ether = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
    packet = ether / IP(src="192.0.2.1", dst="192.0.2.2") / layer(dport=port) / bytes(32)
    return bytes(packet)


def key(port: int) -> bytes:
    return socket.htons(port).to_bytes(2, "little")


def test_blocked_ports_are_dropped_and_counted(xdp):
    ports = xdp.load(FILTER, maps={"blocked": {key(9): 0}})
    assert ports.run(to_port(9)).action == "XDP_DROP"
    assert ports.run(to_port(9)).action == "XDP_DROP"
    assert ports.run(to_port(53)).action == "XDP_PASS"
    assert ports.maps["blocked"].number(key(9)) == 2


@pytest.mark.parametrize(
    "packet", [to_port(9, TCP), to_port(9)[:40], to_port(9)[:14]], ids=["tcp", "cut", "bare"]
)
def test_what_is_no_udp_passes_unchanged(xdp, packet):
    ports = xdp.load(FILTER, maps={"blocked": {key(9): 0}})
    ran = ports.run(packet)
    assert (ran.action, ran.data) == ("XDP_PASS", packet)


@pytest.mark.xdp_engine("user")  # counts are of the user-space engine, whatever machine it is
def test_instructions(xdp):
    xdp.check_instructions(FILTER, [to_port(9), to_port(9, TCP), to_port(9)[:14]])


def test_time(xdp):
    xdp.check_time(FILTER, packet=to_port(9), percent=10, time_s=1)
