"""xdplab redirect, redirect-map, redirect-multi, redirect-cpu: packets sent elsewhere."""

from __future__ import annotations

from typing import Any

import click

from xdplab.cli import completion
from xdplab.cli.arguments import WholeNumber
from xdplab.cli.live import Common, common_options, load_mode_option
from xdplab.errors import UsageError
from xdplab.live.choices import (
    CPU_CHOICES,
    EGRESSES,
    REMOTE_ACTIONS,
    Access,
    CpuChoice,
    Egress,
    RemoteAction,
)

_stats_option = click.option(
    "-s",
    "--stats",
    "successes",
    is_flag=True,
    help="Count redirects that succeed, too, by a tracepoint that every packet then passes.",
)


def _egress_options(function: Any) -> Any:
    function = click.option(
        "-A",
        "--egress-action",
        "--egress-mode",
        "egress",
        type=click.Choice(EGRESSES),
        help="What -X does: write the interface's address as the source (forward, the default), "
        "or drop.",
    )(function)
    return click.option(
        "-X",
        "--load-egress",
        "load_egress",
        is_flag=True,
        help="Run a program in the devmap before packets leave.",
    )(function)


def _chosen_egress(load_egress: bool, egress: Egress | None) -> Egress | None:
    if egress and not load_egress:
        raise UsageError("--egress-action says what -X runs, but -X was not given; add it")
    return (egress or "forward") if load_egress else None


@click.command("redirect")
@click.argument("source", metavar="IFACE", shell_complete=completion.interfaces)
@click.argument("to", metavar="OUT", shell_complete=completion.interfaces)
@load_mode_option
@_stats_option
@common_options()
def redirect(source: str, to: str, access: Access, successes: bool, **common: Any) -> int:
    """Send every packet that comes in at IFACE out of OUT by bpf_redirect(), and count.

    MAC addresses are swapped first. A veth takes packets only while its peer has a native XDP
    program or GRO: it is said where it has neither. xmit/s is what OUT's driver took.
    """
    from xdplab.live import plans

    options = Common(**common)
    ends = options.interface(source), options.interface(to)
    return options.conduct(plans.redirect(*ends, access, successes=successes))


@click.command("redirect-map")
@click.argument("source", metavar="IFACE", shell_complete=completion.interfaces)
@click.argument("to", metavar="OUT", shell_complete=completion.interfaces)
@_egress_options
@_stats_option
@common_options()
def redirect_map(
    source: str, to: str, load_egress: bool, egress: Egress | None, successes: bool, **common: Any
) -> int:
    """Send every packet that comes in at IFACE out of OUT by way of a devmap, and count.

    MAC addresses are swapped first. See `xdplab redirect` for veth.
    """
    from xdplab.live import plans

    options = Common(**common)
    chosen = _chosen_egress(load_egress, egress)
    ends = options.interface(source), options.interface(to)
    return options.conduct(plans.redirect_map(*ends, chosen, successes=successes))


@click.command("redirect-multi")
@click.argument(
    "names", metavar="IFACE...", nargs=-1, required=True, shell_complete=completion.interfaces
)
@_egress_options
@_stats_option
@common_options()
def redirect_multi(
    names: tuple[str, ...],
    load_egress: bool,
    egress: Egress | None,
    successes: bool,
    **common: Any,
) -> int:
    """Send every packet that comes in at one of the IFACEs out of all the others, and count.

    Each of them gets the program. See `xdplab redirect` for veth.
    """
    from xdplab.live import plans

    options = Common(**common)
    chosen = _chosen_egress(load_egress, egress)
    named = [options.interface(name) for name in names]
    return options.conduct(plans.redirect_multi(named, chosen, successes=successes))


@click.command("redirect-cpu")
@click.argument("source", metavar="IFACE", shell_complete=completion.interfaces)
@click.option(
    "-c",
    "--cpu",
    "cpus",
    type=WholeNumber(0, 65_535),
    multiple=True,
    required=True,
    help="A CPU to send packets to; may be given several times.",
)
@click.option(
    "-p",
    "--program-mode",
    "choice",
    type=click.Choice(CPU_CHOICES),
    default="l4-hash",
    show_default=True,
    help="How a packet's CPU is chosen: the first one (no-touch, touch), each in turn, by "
    "protocol (TCP and others first, UDP second, ICMP third; l4-filter drops UDP to port 9), by "
    "addresses and protocol, or by port. Where there are fewer CPUs than it takes, they share.",
)
@click.option(
    "-r",
    "--remote-action",
    "remote",
    type=click.Choice(REMOTE_ACTIONS),
    default="disabled",
    show_default=True,
    help="What a program does to the packet on the chosen CPU.",
)
@click.option(
    "-D",
    "--redirect-device",
    "to",
    metavar="OUT",
    help="Where --remote-action redirect sends packets.",
)
@click.option(
    "-q",
    "--qsize",
    "queue_packets",
    type=WholeNumber(1, 16_384),
    default=2048,
    show_default=True,
    help="How many packets each CPU's queue holds.",
)
@_stats_option
@common_options()
def redirect_cpu(
    source: str,
    cpus: tuple[int, ...],
    choice: CpuChoice,
    remote: RemoteAction,
    to: str | None,
    queue_packets: int,
    successes: bool,
    **common: Any,
) -> int:
    """Hand every packet that comes in at IFACE to another CPU by way of a cpumap, and count.

    Without --remote-action it goes on to the network stack there. kthread/s is what the
    chosen CPUs took out of their queues.
    """
    from xdplab.live import plans

    if (remote == "redirect") != (to is not None):
        raise UsageError(
            "--remote-action redirect and --redirect-device OUT go together; give both"
        )
    options = Common(**common)
    named = options.interface(source)
    out = options.interface(to) if to is not None else None
    plan = plans.redirect_cpu(named, cpus, choice, remote, out, queue_packets, successes=successes)
    return options.conduct(plan)
