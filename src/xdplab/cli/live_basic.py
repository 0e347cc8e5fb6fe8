"""xdplab drop, pass, tx: one action for every packet of an interface, and how many there are."""

from __future__ import annotations

from typing import Any, Literal

import click

from xdplab.cli import completion
from xdplab.cli.live import Common, common_options, load_mode_option
from xdplab.live.choices import OPERATIONS, Access, Operation


def _command(name: Literal["drop", "pass", "tx"], default: Operation, text: str) -> click.Command:
    @click.command(name, help=text)
    @click.argument("interface", metavar="IFACE", shell_complete=completion.interfaces)
    @click.option(
        "-p",
        "--packet-operation",
        "--program-mode",
        "operation",
        type=click.Choice(OPERATIONS),
        default=default,
        show_default=True,
        help="What to do to a packet first. One that is too short for it is XDP_ABORTED.",
    )
    @load_mode_option
    @click.option(
        "-r",
        "--rxq-stats",
        "by_queue",
        is_flag=True,
        help="Count packets by receive queue, too. Costs some nanoseconds a packet.",
    )
    @common_options()
    def command(
        interface: str, operation: Operation, access: Access, by_queue: bool, **common: Any
    ) -> int:
        from xdplab.live.plans import basic

        options = Common(**common)
        named = options.interface(interface)
        return options.conduct(basic(name, named, operation, access, by_queue=by_queue))

    return command


drop = _command(
    "drop",
    "no-touch",
    """Drop every packet that comes in at IFACE, and count.

    A line an interval goes to stdout, a summary at the end. Whatever ends the command, also
    kill -9, takes the program off IFACE.
    """,
)
pass_ = _command(
    "pass",
    "no-touch",
    """Pass every packet that comes in at IFACE on to the network stack, and count.

    A line an interval goes to stdout, a summary at the end. Whatever ends the command, also
    kill -9, takes the program off IFACE.
    """,
)
tx = _command(
    "tx",
    "swap-macs",
    """Send every packet that comes in at IFACE back out of it (XDP_TX), and count.

    A veth sends back only while its peer has a native XDP program or GRO: it is said where it
    has neither. A line an interval goes to stdout, a summary at the end. Whatever ends the
    command, also kill -9, takes the program off IFACE.
    """,
)
