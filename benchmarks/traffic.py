"""Packets and map entries for programs that nobody here wrote: seeded, and plausible.

Packets are those that XDP programs tell apart: Ethernet with up to two VLAN tags, IPv4 with
options and fragments, IPv6 with extension headers, TCP with options, UDP with DNS or tunnels in it,
ICMP and ICMPv6 echo and errors, tunnels, ARP; some of them cut short or damaged, and bytes without
meaning. Addresses and ports come from small pools, and so do keys and values of maps: some packets
meet them.
"""

from __future__ import annotations

import random
import struct

from xdplab.packets.frame import Frame
from xdplab.program import MapSpec

IPV4 = [bytes((10, 0, 0, n)) for n in range(1, 7)] + [bytes((192, 0, 2, n)) for n in (1, 2)]
IPV6 = [bytes.fromhex("20010db8") + bytes(11) + bytes((n,)) for n in range(1, 7)]
MACS = [bytes((2, 0, 0, 0, 0, n)) for n in (1, 2, 3)] + [b"\xff" * 6]
PORTS = [9, 22, 53, 80, 443, 1234, 2152, 4789, 5555, 6081, 6666, 8080, 9876, 11211, 31337]

_LOOPBACK_IFINDEX = 1
_LPM_TRIE, _DEVMAPS, _CPUMAP = 11, (14, 25), 16
_ARRAYS = (2, 6)
_FILLED = frozenset({1, 2, 5, 6, 9, 10, _LPM_TRIE, *_DEVMAPS, _CPUMAP})
"""enum bpf_map_type of maps that entries are made for: hashes, arrays, tries, devmaps, cpumaps."""


def checksum(data: bytes) -> int:
    """The Internet checksum (RFC 1071)."""
    data += bytes(len(data) % 2)
    total: int = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


class Traffic:
    """A sequence of frames, and of map entries; the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self._pick = random.Random(seed)

    def frame(self, maximum: int = 1500) -> Frame:
        """The next frame, of 14 to `maximum` bytes."""
        pick = self._pick
        if pick.random() < 0.12:
            data = pick.randbytes(pick.choice((14, 15, 33, 34, 42, 54, 60, 64, 200, 1500)))
        else:
            data = self._ethernet()
            if pick.random() < 0.1:
                damaged = bytearray(data)
                for _ in range(pick.choice((1, 1, 2, 8))):
                    damaged[pick.randrange(len(damaged))] = pick.randrange(256)
                data = bytes(damaged)
            if pick.random() < 0.12:
                data = data[: pick.randint(14, len(data))]
            if pick.random() < 0.5:
                data = data.ljust(60, b"\0")
            if pick.random() < 0.1:
                data += pick.randbytes(pick.choice((1, 4, 18, 700)))
        if maximum > 1500 and pick.random() < 0.2:
            data += pick.randbytes(pick.randint(1500, maximum))
        words = pick.choice((1, 2, 4, 8)) if pick.random() < 0.15 else 0
        return Frame(data[:maximum].ljust(14, b"\0"), pick.randbytes(4 * words))

    def _ethernet(self) -> bytes:
        pick = self._pick
        kinds = ((0x0800, self._ipv4), (0x86DD, self._ipv6), (0x0806, self._arp))
        kind, payload = pick.choices(kinds, (55, 38, 4))[0]
        if pick.random() < 0.03:
            kind = pick.choice((0x88CC, 0x8847, 0x8864, 0x05DC))
        tags = b""
        for _ in range(pick.choices((0, 1, 2), (75, 18, 7))[0]):
            tags += struct.pack(">HH", pick.choice((0x8100, 0x88A8)), pick.choice((1, 2, 42, 4000)))
        # A tag's EtherType stands before it.
        macs = pick.choice(MACS) + pick.choice(MACS)
        return macs + tags + struct.pack(">H", kind) + payload()

    def _payload(self) -> bytes:
        size = self._pick.choices((0, 1, 8, 33, 120, 1300), (20, 10, 25, 25, 15, 5))[0]
        return self._pick.randbytes(size)

    def _arp(self) -> bytes:
        pick = self._pick
        start = struct.pack(">HHBBH", 1, 0x0800, 6, 4, pick.choice((1, 2)))
        return start + MACS[0] + pick.choice(IPV4) + bytes(6) + pick.choice(IPV4)

    def _ipv4(self, inside: int = 0) -> bytes:
        pick = self._pick
        source, destination = pick.choice(IPV4), pick.choice(IPV4)
        protocol, data = self._transport(source + destination, inside, is_v6=False)
        options = pick.randbytes(4 * pick.choice((1, 2, 10))) if pick.random() < 0.08 else b""
        fragment = pick.choice((0x2000, 0x2005, 0x0010)) if pick.random() < 0.05 else 0x4000
        header = struct.pack(
            ">BBHHHBBH4s4s",
            0x45 + len(options) // 4,
            pick.choice((0, 0, 0x10, 0xB8, 3)),
            20 + len(options) + len(data),
            pick.randrange(65536),
            fragment,
            pick.choice((64, 64, 255, 2, 1, 0)),
            protocol,
            0,
            source,
            destination,
        )
        header += options
        return header[:10] + checksum(header).to_bytes(2, "big") + header[12:] + data

    def _ipv6(self, inside: int = 0) -> bytes:
        pick = self._pick
        source, destination = pick.choice(IPV6), pick.choice(IPV6)
        protocol, data = self._transport(source + destination, inside, is_v6=True)
        for _ in range(pick.choices((0, 1, 2), (85, 10, 5))[0]):
            kind = pick.choice((0, 43, 44, 60))
            length = 0 if kind == 44 else pick.choice((0, 0, 1))
            data = bytes((protocol, length)) + pick.randbytes(6 + 8 * length) + data
            protocol = kind
        hops = pick.choice((64, 64, 255, 1, 0))
        first = 6 << 28 | pick.choice((0, 0, 0xB8)) << 20 | pick.choice((0, 0x12345))
        return struct.pack(">IHBB", first, len(data), protocol, hops) + source + destination + data

    def _transport(self, addresses: bytes, inside: int, *, is_v6: bool) -> tuple[int, bytes]:
        kinds = (self._tcp, self._udp, self._icmp, self._tunnel, self._other)
        weights = (35, 38, 15, 6 if inside < 2 else 0, 3)
        protocol, data, place = self._pick.choices(kinds, weights)[0](is_v6, inside)
        if place:
            pseudo = b""
            if protocol != 1:
                pseudo = addresses + len(data).to_bytes(4, "big") + protocol.to_bytes(4, "big")
            found = checksum(pseudo + data).to_bytes(2, "big")
            if self._pick.random() < 0.9:
                data = data[:place] + found + data[place + 2 :]
        return protocol, data

    def _ports(self) -> tuple[int, int]:
        pick = self._pick
        free = pick.choice((1024, 40000, 65535, pick.randrange(65536)))
        ports = (free, pick.choice(PORTS))
        return ports if pick.random() < 0.7 else (ports[1], ports[0])

    def _tcp(self, is_v6: bool, inside: int) -> tuple[int, bytes, int]:
        pick = self._pick
        options = pick.choice(
            (b"", b"", b"\x02\x04\x05\xb4", b"\x02\x04\x05\xb4\x04\x02\x08\x0a" + pick.randbytes(8),
             b"\x01\x01\x08\x0a" + pick.randbytes(8), b"\xfd\x06" + pick.randbytes(4) + b"\1\1")
        )  # fmt: skip
        options += bytes(-len(options) % 4)
        flags = pick.choice((0x02, 0x12, 0x10, 0x18, 0x11, 0x04, 0))
        words = pick.randrange(1 << 32), pick.randrange(1 << 32)
        start = 5 + len(options) // 4 if pick.random() < 0.97 else pick.randrange(16)
        fixed = struct.pack(">BBHHH", start << 4, flags, 65535, 0, 0)
        header = struct.pack(">HHII", *self._ports(), *words) + fixed
        return 6, header + options + self._payload(), 16

    def _udp(self, is_v6: bool, inside: int) -> tuple[int, bytes, int]:
        pick = self._pick
        source, destination = self._ports()
        data = self._payload()
        if 53 in (source, destination):
            data = self._dns()
        elif destination == 4789 and inside < 2:
            data = b"\x08\0\0\0\0\0\x2a\0" + MACS[0] + MACS[1] + b"\x08\0" + self._ipv4(inside + 1)
        elif destination in (6666, 9876) and inside < 2:
            data = self._ipv6(inside + 1) if pick.random() < 0.5 else self._ipv4(inside + 1)
        length = 8 + len(data) if pick.random() < 0.97 else pick.randrange(65536)
        return 17, struct.pack(">HHHH", source, destination, length, 0) + data, 6

    def _dns(self) -> bytes:
        pick = self._pick
        flags = pick.choice((0x0100, 0x0120, 0x8180, 0x0000))
        has_edns = pick.random() < 0.6
        names = (b"\7example\3com\0", b"\3www\7example\3net\0", b"\0", b"\4test\0")
        data = struct.pack(">HHHHHH", pick.randrange(65536), flags, 1, 0, 0, has_edns)
        data += pick.choice(names) + struct.pack(">HH", pick.choice((1, 28, 255)), 1)
        if has_edns:
            cookie = pick.choice((b"", b"\0\x0a\0\x08" + pick.randbytes(8)))
            data += b"\0" + struct.pack(">HHIH", 41, 1232, 0, len(cookie)) + cookie
        return data

    def _icmp(self, is_v6: bool, inside: int) -> tuple[int, bytes, int]:
        pick = self._pick
        kind = pick.choice((128, 128, 129, 1, 2, 135) if is_v6 else (8, 8, 0, 3, 11))
        is_error = kind in ((1, 2) if is_v6 else (3, 11))
        data = pick.randbytes(4)
        if is_error and inside < 2:
            data += self._ipv6(inside + 1) if is_v6 else self._ipv4(inside + 1)
        else:
            data += self._payload()
        code = pick.choice((0, 0, 4)) if is_error else 0
        return (58 if is_v6 else 1), struct.pack(">BBH", kind, code, 0) + data, 2

    def _tunnel(self, is_v6: bool, inside: int) -> tuple[int, bytes, int]:
        if self._pick.random() < 0.2:
            return 47, b"\0\0\x08\0" + self._ipv4(inside + 1), 0
        if self._pick.random() < 0.5:
            return 4, self._ipv4(inside + 1), 0
        return 41, self._ipv6(inside + 1), 0

    def _other(self, is_v6: bool, inside: int) -> tuple[int, bytes, int]:
        return self._pick.choice((50, 51, 59, 89, 132)), self._payload(), 0

    def entries(self, spec: MapSpec, most: int = 64) -> list[tuple[bytes, bytes]]:
        """Up to `most` entries for a map; none for a type that has no plain entries."""
        if spec.type not in _FILLED:
            return []
        found: dict[bytes, bytes] = {}
        if spec.type == _CPUMAP:
            return [(bytes(4), (64).to_bytes(spec.value_size, "little"))]
        for index in range(min(most, spec.max_entries)):
            if spec.type in _DEVMAPS:
                value = _LOOPBACK_IFINDEX.to_bytes(spec.value_size, "little")
            else:
                value = self._value(spec.value_size)
            is_array = spec.type in (*_ARRAYS, _DEVMAPS[0])
            found[index.to_bytes(4, "little") if is_array else self._key(spec)] = value
        return list(found.items())

    def _key(self, spec: MapSpec) -> bytes:
        pick, size = self._pick, spec.key_size
        if spec.type == _LPM_TRIE:
            data = self._pieces(size - 4)
            bits = pick.choice((8 * len(data), 8 * len(data), 24, 16, 4 * len(data), 0))
            return min(bits, 8 * len(data)).to_bytes(4, "little") + data
        if size <= 4 and pick.random() < 0.4:
            return pick.randrange(min(spec.max_entries, 1 << 8 * size)).to_bytes(size, "little")
        return self._pieces(size)

    def _value(self, size: int) -> bytes:
        pick = self._pick
        kind = pick.random()
        if kind < 0.2:
            return pick.randbytes(size)
        if kind < 0.5:
            return self._pieces(size)
        words = b"".join(
            pick.choice((0, 0, 1, 2, 3, 5)).to_bytes(4, "little") for _ in range(size // 4 + 1)
        )
        return words[:size]

    def _pieces(self, size: int) -> bytes:
        """`size` bytes of addresses and ports, as packets have them."""
        pick = self._pick
        found = b""
        while len(found) < size:
            left = size - len(found)
            pool = [(bytes((n,))) for n in (0, 1, 6, 17)]
            pool += [port.to_bytes(2, "big") for port in PORTS if left >= 2]
            if left >= 4:
                pool = [*IPV4, bytes(4)]
            if left == 6:
                pool = MACS
            if left >= 16:
                pool = IPV6 + [address + bytes(12) for address in IPV4]
            found += pick.choice(pool)
        return found
