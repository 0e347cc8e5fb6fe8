"""Which frames a command takes: of captures by number and by expression, and where they came in."""

from __future__ import annotations

import struct
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from xdplab.cli.frames import Given, frames_options
from xdplab.engines.base import Method, Subject
from xdplab.engines.user import UserEngine
from xdplab.errors import FrameError, KernelError, NotPossibleError, UsageError
from xdplab.packets import selection
from xdplab.packets.frame import Frame, udp_frame
from xdplab.program import ObjectSpec, compile_object, read_object

SOURCE = """
#include "xdplab.bpf.h"
char _license[] SEC("license") = "GPL";
SEC("xdp") int queue(struct xdp_md *ctx) { return ctx->rx_queue_index; }
SEC("xdp") int port(struct xdp_md *ctx) { return ctx->ingress_ifindex; }
SEC("xdp") int marked(struct xdp_md *ctx)
{
	__u8 *mark = (void *)(long)ctx->data_meta;

	return (void *)(mark + 4) <= (void *)(long)ctx->data && mark[3] == 9 ? XDP_TX : XDP_DROP;
}
"""

try:
    selection._library()
except NotPossibleError as error:
    NO_LIBPCAP = str(error)
else:
    NO_LIBPCAP = ""

needs_libpcap = pytest.mark.skipif(bool(NO_LIBPCAP), reason=NO_LIBPCAP)


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> ObjectSpec:
    source = tmp_path_factory.mktemp("ctx") / "ctx.bpf.c"
    source.write_text(SOURCE)
    headers = Path(selection.__file__).parents[1] / "bpf"
    return read_object(compile_object(source, include=(headers,)), "ctx")


@pytest.fixture
def capture(tmp_path: Path) -> str:
    """Packets 1 to 6: IPv4 of 64, IPv6 of 80, nothing, 8 bytes, VLAN of 100, IPv4 of 300, of which
    200 bytes were captured."""
    packets = [udp_frame("ipv4", 64).data, udp_frame("ipv6", 80).data, b"", bytes(8)]
    packets += [udp_frame("vlan", 100).data, udp_frame("ipv4", 300).data]
    content = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65_535, 1)
    for data in packets:
        content += struct.pack("<IIII", 0, 0, len(data[:200]), len(data)) + data[:200]
    path = tmp_path / "six.pcap"
    path.write_bytes(content)
    return str(path)


def given(*arguments: str) -> Given:
    """What a command with these arguments is given."""
    taken: list[Given] = []

    @click.command()
    @frames_options("", "")
    def command(given: Given) -> None:
        taken.append(given)

    result = CliRunner().invoke(command, arguments)
    if result.exception:
        raise result.exception
    return taken[0]


def lengths(*arguments: str) -> list[int]:
    return [len(frame.data) for frame in given(*arguments).frames()]


@pytest.mark.parametrize(
    ("ranges", "expected"),
    [
        ("1", [64]),
        ("2-4", [80]),
        ("5-", [100, 200]),
        ("6,1", [64, 200]),
        ("1-", [64, 80, 100, 200]),
    ],
)
def test_packets_are_chosen_by_their_numbers(
    capture: str, ranges: str, expected: list[int]
) -> None:
    assert lengths("--pcap", capture, "--packets", ranges) == expected


def test_what_lies_behind_the_last_number_is_not_read(tmp_path: Path, capture: str) -> None:
    damaged = tmp_path / "damaged.pcap"
    damaged.write_bytes(Path(capture).read_bytes()[:-50])
    one = given("--pcap", str(damaged), "--packets", "1-2").frames()
    assert len(list(one)) == 2
    assert list(one.warnings()) == []


@pytest.mark.parametrize("ranges", ["0", "3-2", "", "a", "1,,2", "-3", "1-2-3"])
def test_ranges_that_name_nothing_are_refused(capture: str, ranges: str) -> None:
    with pytest.raises(FrameError, match="names no packets"):
        given("--pcap", capture, "--packets", ranges)


@needs_libpcap
@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("ip6", [80]),
        ("udp port 9 and not vlan", [64, 80, 200]),
        ("vlan 1", [100]),
        # Of the packet as it went by, of which less was captured.
        ("greater 250", [200]),
        ("", [64, 80, 100, 200]),
    ],
)
def test_packets_are_chosen_by_an_expression(
    capture: str, expression: str, expected: list[int]
) -> None:
    assert lengths("--pcap", capture, "--filter", expression) == expected


@needs_libpcap
def test_an_expression_that_is_none_is_refused_in_the_librarys_words(capture: str) -> None:
    with pytest.raises(FrameError, match=r"'port \('.*syntax error"):
        given("--pcap", capture, "--filter", "port (")


def test_without_the_library_it_is_said_what_to_install(
    capture: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    selection._library.cache_clear()
    monkeypatch.setattr(selection, "_LIBRARIES", ("libnosuch.so",))
    try:
        with pytest.raises(NotPossibleError, match="apt-get install libpcap"):
            given("--pcap", capture, "--filter", "udp")
    finally:
        selection._library.cache_clear()


def test_where_none_is_meant_or_none_can_be_given_it_is_said(capture: str) -> None:
    with pytest.raises(FrameError, match="--packets or --filter means"):
        lengths("--pcap", capture, "--packets", "7-")
    with pytest.raises(FrameError, match="one that a program could be given"):
        lengths("--pcap", capture, "--packets", "3-4")
    with pytest.raises(UsageError, match="give --pcap"):
        given("--packets", "1")


def test_a_programs_context_is_as_it_was_given(spec: ObjectSpec) -> None:
    for program, field, value in (("queue", "rx_queue_index", 3), ("port", "ingress_ifindex", 77)):
        (frame,) = given("--ctx", f"{field}={value}").frames()
        assert _retval(spec, program, frame) == value
    (frame,) = given("--ctx", "metadata=hex:00000009").frames()
    assert _retval(spec, "marked", frame) == 3


def _retval(spec: ObjectSpec, program: str, frame: Frame) -> int:
    subject = Subject("one", spec, program, frame, action=None)
    with UserEngine().open([subject], Method.PACKET) as session:
        # A timed call in between leaves the context to the next run.
        session.place(["one"])
        session.timer("one")()
        return session.run("one").retval


@pytest.mark.needs_kernel
def test_the_kernel_checks_a_context_and_gives_it_to_programs(spec: ObjectSpec) -> None:
    from xdplab.engines.kernel import KernelEngine

    def returned(program: str, *fields: str) -> int:
        words = [word for field in fields for word in ("--ctx", field)]
        (frame,) = given(*words).frames()
        subject = Subject("one", spec, program, frame, action=None)
        with KernelEngine().open([subject], Method.PACKET) as session:
            return session.run("one").retval

    assert returned("port", "ingress_ifindex=lo", "rx_queue_index=0") == 1
    assert returned("marked", "metadata=hex:00000009") == 3
    with pytest.raises(KernelError, match=r"ENODEV.*no interface 4000000"):
        returned("port", "ingress_ifindex=4000000")
    with pytest.raises(KernelError, match=r"EINVAL.*receive queue 9"):
        returned("queue", "rx_queue_index=9")


@pytest.mark.parametrize(
    ("field", "words"),
    [
        ("data=4", "follows from the packet"),
        ("egress_ifindex=1", "in a devmap"),
        ("colour=1", "ingress_ifindex, rx_queue_index, metadata"),
        ("rx_queue_index=-1", "from 0 to 4294967295"),
        ("rx_queue_index=4294967296", "from 0 to 4294967295"),
        ("ingress_ifindex=0", "from 1 on"),
        ("ingress_ifindex=nosuch", "no interface of that name"),
        ("metadata=00", "hex:00ff"),
        ("metadata=hex:0", "hex:00ff"),
        ("rx_queue_index", "NAME=VALUE"),
    ],
)
def test_a_context_that_no_program_can_have_is_refused(field: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        given("--ctx", field)


def test_metadata_of_a_length_that_there_is_not_is_refused() -> None:
    with pytest.raises(FrameError, match="multiple of 4"):
        lengths("--ctx", "metadata=hex:00")
