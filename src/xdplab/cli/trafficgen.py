"""xdplab trafficgen: packets out of an interface, by one of several generators, and how many."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from xdplab.cli import completion
from xdplab.cli.arguments import Decimal, FilePath, WholeNumber
from xdplab.cli.keeping import Keeping, keeping_options
from xdplab.cli.live import (
    STDOUT,
    check_json_target,
    duration_option,
    interval_option,
    json_option,
    json_output,
    yes_option,
)
from xdplab.cli.main import INTERRUPTED_STATUS
from xdplab.errors import NotPossibleError, OutputError, UsageError
from xdplab.records import Warning

if TYPE_CHECKING:
    from xdplab.live.sending import SendPlan, SentReading
    from xdplab.net.interface import Interface
    from xdplab.packets.traffic import Flows, Traffic
    from xdplab.views.sending import SendingView

GENERATORS = ("frames", "skb", "ring", "pktgen")
_SLOWEST_PPS, _FASTEST_PPS = 0.001, 1e9
_MOST_CAPTURED = 65_536
_DEFAULT_ADDRESSES = {
    False: ("192.0.2.1", "198.18.0.1"),
    True: ("2001:db8::1", "2001:db8::2"),
}
"""Set aside for documentation (RFC 5737, RFC 3849) and for benchmarks (RFC 2544): source and
destination for IPv4 and IPv6."""

_OF_FLOWS = (
    *("source", "destination", "source_port", "destination_port", "source_mac"),
    *("destination_mac", "frame_bytes", "tcp", "vlans"),
)
"""Options that say what packets are like: parameters of the command."""

_OPTIONS: Sequence[Callable[[Any], Any]] = (
    click.option(
        "-g",
        "--generator",
        type=click.Choice(GENERATORS),
        default=GENERATORS[0],
        show_default=True,
        help="frames: live XDP frames. skb: clones of an skb. ring: frames from user space, also "
        "jumbo ones. pktgen: the kernel's own, where it has one.",
    ),
    click.option(
        "-r",
        "--rate",
        "rate_pps",
        type=Decimal(_SLOWEST_PPS, _FASTEST_PPS, "rate", "packets a second"),
        metavar="PPS",
        help="Packets a second. By default as many as can be made.",
    ),
    click.option("-n", "--packets", type=WholeNumber(1), help="End after so many packets."),
    duration_option,
    interval_option,
    click.option(
        "-s",
        "--pkt-size",
        "frame_bytes",
        type=WholeNumber(42, 65_549),
        default=64,
        show_default=True,
        help="Bytes of a frame, Ethernet header included, without the FCS.",
    ),
    click.option("--tcp", is_flag=True, help="TCP packets instead of UDP."),
    click.option(
        "--vlan",
        "vlans",
        type=WholeNumber(0, 4095),
        multiple=True,
        help="A VLAN tag. Given twice: the outer one first.",
    ),
    click.option(
        "-A",
        "--src-addr",
        "source",
        metavar="ADDR[-ADDR]",
        help="Source addresses: one, a range or a network, IPv4 or IPv6.",
    ),
    click.option(
        "-a", "--dst-addr", "destination", metavar="ADDR[-ADDR]", help="Destination addresses."
    ),
    click.option(
        "-P",
        "--src-port",
        "source_port",
        metavar="PORT[-PORT]",
        default="1234",
        show_default=True,
        help="Source ports. With ranges, all combinations come in turn, source ports fastest.",
    ),
    click.option(
        "-p",
        "--dst-port",
        "destination_port",
        metavar="PORT[-PORT]",
        default="9",
        show_default=True,
        help="Destination ports.",
    ),
    click.option("-M", "--src-mac", "source_mac", metavar="MAC", help="By default that of IFACE."),
    click.option(
        "-m",
        "--dst-mac",
        "destination_mac",
        metavar="MAC",
        help="By default that of a veth's peer. Elsewhere it must be given.",
    ),
    click.option(
        "--pcap",
        type=FilePath(),
        metavar="FILE",
        help="Send the frames of a capture (pcap, pcapng) in turn, as they are.",
    ),
    click.option(
        "--batch",
        "batch_size",
        type=WholeNumber(1, 256),
        help="Live frames at a time, for the generator frames. [default: 128]",
    ),
    click.option("--cpu", type=WholeNumber(0, 8191), help="The CPU to send on."),
    json_option,
    click.option("--explain", is_flag=True, help="Say what would be sent, and send nothing."),
    yes_option,
)


def _options(function: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(_OPTIONS):
        function = option(function)
    return keeping_options(function)


@click.command()
@click.argument("interface", metavar="IFACE", shell_complete=completion.interfaces)
@_options
def command(
    interface: str,
    yes: bool,
    explain: bool,
    interval_s: float,
    duration_s: float | None,
    json_target: str | None,
    keeping: Keeping,
    **options: Any,
) -> int:
    """Send packets out of IFACE, and count them.

    A line an interval goes to stdout, a summary with the true totals at the end: what was made,
    and what IFACE took of it. Ctrl-C ends it, unless --packets or --duration do.
    """
    from xdplab.cli.live_keeping import LiveRun
    from xdplab.kernel.host import environment
    from xdplab.live.sending import SendSession, watch_sending
    from xdplab.live.watch import Ending, Signals, Why
    from xdplab.net.interface import named_interface, why_peer_drops
    from xdplab.views.sending import SentJson, SentLines, explained, in_one_line

    plan = _plan(named_interface(interface, yes), **options)
    if explain:
        for line in explained(plan, _described_peer(plan.interface)):
            click.echo(line)
        return 0
    ending = Ending(duration_s, plan.packets)
    check_json_target(json_target)
    facts = environment()
    run = LiveRun("trafficgen", facts)
    with (
        # Outermost: whoever else writes to the store must not keep packets flowing.
        run.kept(keeping),
        Signals(lambda: None).handled() as signals,
        SendSession(plan) as session,
        json_output(json_target) as json_out,
    ):
        views: list[SendingView] = []
        if sys.stdout is not None and json_target != STDOUT:
            views.append(SentLines(sys.stdout))
        if json_out is not None:
            views.append(SentJson(json_out, facts))
        for doubt in session.doubts:
            click.echo(f"xdplab: {doubt}", err=True)
        click.echo(f"xdplab: trafficgen on {plan.interface.name} ({plan.generator})", err=True)

        run.warnings += [Warning("doubt", doubt) for doubt in session.doubts]

        def show(part: SentReading, total: SentReading) -> None:
            run.interval(part.seconds, part.sent, {"refused": part.refused})
            for view in views:
                view.interval(part, total)

        try:
            for view in views:
                view.begin(session)
            why, total = watch_sending(session, ending, interval_s, signals, show)
            was_ended = why is Why.ASKED and not ending.is_open
            run.end(
                {"sent": total.sent, "refused": total.refused},
                is_whole=why is not Why.GONE and not was_ended,
            )
            for view in views:
                view.end(why, total)
        except OutputError as error:
            raise OutputError(f"{error}. {in_one_line(session.stop())}") from None
        if why is Why.GONE:
            raise NotPossibleError(
                f"trafficgen ended early: {plan.interface.name} was removed. What was counted "
                "until then was shown"
            )
        if total.refused and (cause := why_peer_drops(plan.interface)):
            click.echo(f"xdplab: {cause}", err=True)
    return INTERRUPTED_STATUS if was_ended else 0


def _plan(
    interface: Interface,
    generator: str,
    rate_pps: float | None,
    packets: int | None,
    batch_size: int | None,
    cpu: int | None,
    pcap: Path | None,
    **of_flows: Any,
) -> SendPlan:
    from xdplab.live.sending import SendPlan

    if batch_size is not None and generator != "frames":
        raise UsageError("--batch belongs to the generator frames: leave it out")
    if pcap is not None and (ignored := _given(_OF_FLOWS)):
        raise UsageError(
            f"--pcap sends a capture's frames as they are: leave out {', '.join(ignored)}"
        )
    traffic: Traffic = _flows(interface, **of_flows) if pcap is None else _captured(pcap)
    if cpu is not None:
        _check_cpu(cpu)
    return SendPlan(interface, generator, traffic, rate_pps, packets, cpu, batch_size)


def _given(names: Sequence[str]) -> list[str]:
    """Those of the options that stand on the command line."""
    context = click.get_current_context()
    by_command_line = click.core.ParameterSource.COMMANDLINE
    return [
        parameter.opts[-1]
        for parameter in context.command.params
        if parameter.name in names
        and context.get_parameter_source(parameter.name) is by_command_line
    ]


def _check_cpu(cpu: int) -> None:
    import os

    allowed = os.sched_getaffinity(0)
    if cpu not in allowed:
        known = ", ".join(map(str, sorted(allowed)))
        raise UsageError(f"--cpu {cpu} was asked for; this process may use {known}")


def _captured(path: Path) -> Traffic:
    from xdplab.packets.frame import MINIMUM_BYTES
    from xdplab.packets.pcap import capture_frames
    from xdplab.packets.traffic import Captured

    frames: list[bytes] = []
    for captured in capture_frames(path):
        if len(frames) == _MOST_CAPTURED:
            raise UsageError(
                f"{str(path)!r} has more than {_MOST_CAPTURED} packets, which is what is sent in "
                "turn. Cut it (editcap -r, tcpdump -c)"
            )
        if captured.cut_bytes or len(captured.data) < MINIMUM_BYTES:
            raise UsageError(
                f"{str(path)!r} has a packet that was not captured whole (number "
                f"{len(frames) + 1}), and what is sent would be another one. Capture whole packets "
                "(tcpdump -s 0)"
            )
        frames.append(captured.data)
    return Captured(frames)


def _flows(
    interface: Interface,
    source: str | None,
    destination: str | None,
    source_port: str,
    destination_port: str,
    source_mac: str | None,
    destination_mac: str | None,
    frame_bytes: int,
    tcp: bool,
    vlans: tuple[int, ...],
) -> Flows:
    from xdplab.packets.traffic import TCP, UDP, Flows, address_span, port_span

    given = [address_span(text) for text in (source, destination) if text is not None]
    versions = {is_ipv6 for _, is_ipv6 in given}
    if len(versions) > 1:
        raise UsageError("one address is of IPv4 and one of IPv6; a packet has two of one kind")
    ipv6 = bool(versions) and versions.pop()
    texts = [
        text if text is not None else default
        for text, default in zip((source, destination), _DEFAULT_ADDRESSES[ipv6], strict=True)
    ]
    from_span, to_span = (address_span(text)[0] for text in texts)
    return Flows(
        from_span,
        to_span,
        ipv6=ipv6,
        protocol=TCP if tcp else UDP,
        source_port=port_span(source_port),
        destination_port=port_span(destination_port),
        frame_bytes=frame_bytes,
        vlans=vlans,
        source_mac=_mac(source_mac) if source_mac else interface.mac.hex(":"),
        destination_mac=_mac(destination_mac) if destination_mac else _peer_mac(interface),
    )


def _mac(text: str) -> str:
    import re

    if not re.fullmatch(r"([0-9a-f]{2}:){5}[0-9a-f]{2}", text, re.ASCII | re.IGNORECASE):
        raise UsageError(f"{text!r} is no MAC address such as 02:00:00:00:00:01")
    return text.lower()


def _peer_mac(interface: Interface) -> str:
    from xdplab.net.interface import veth_peer

    peer = veth_peer(interface)
    if peer is None:
        raise UsageError(
            f"{interface.name} is no veth, so that it must be said for whom its packets are. "
            "Give the MAC address of the other side: --dst-mac"
            if interface.peer is None
            else f"{interface.name}'s peer is in a namespace that cannot be looked at from here. "
            "Run as root; or, where root may not either, give the peer's MAC address: --dst-mac"
        )
    return peer.mac.hex(":")


def _described_peer(interface: Interface) -> str:
    from xdplab.net.interface import veth_peer

    peer = veth_peer(interface)
    if peer is None:
        return ""
    programs = ", ".join(f"a {mode} XDP program" for mode in peer.programs) or "no XDP program"
    where = "in this namespace" if interface.peer and interface.peer.nsid is None else "elsewhere"
    return f"{peer.name} ({peer.mac.hex(':')}), {where}, {programs}"
