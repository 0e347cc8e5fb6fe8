"""xdplab xsk-drop, xsk-tx: packets taken out of the kernel by an AF_XDP socket, and counted."""

from __future__ import annotations

import contextlib
from typing import Any, Literal

import click

from xdplab.cli import completion
from xdplab.cli.arguments import WholeNumber
from xdplab.cli.live import Common, common_options
from xdplab.live.choices import COPY_MODES, CopyMode

_RING = 8192
"""Packets a ring: it stays in a processor's cache, and bears half a millisecond at 16 Mpps."""


def _command(name: Literal["xsk-drop", "xsk-tx"], text: str) -> click.Command:
    @click.command(name, help=text)
    @click.argument("interface", metavar="IFACE", shell_complete=completion.interfaces)
    @click.option(
        "-q",
        "--queue",
        type=WholeNumber(0, 65_535),
        default=0,
        show_default=True,
        help="The receive queue whose packets are taken; those of others pass to the stack.",
    )
    @click.option(
        "-f",
        "--frame-size",
        "frame_bytes",
        type=click.Choice(["2048", "4096"]),
        help="Memory a packet, 256 bytes of it before the packet. By default what the MTU needs.",
    )
    @click.option(
        "-R",
        "--ring-size",
        "ring",
        type=WholeNumber(64, 1 << 17),
        default=_RING,
        show_default=True,
        help="Entries of the socket's rings, a power of two. A larger one bears longer pauses, and "
        "takes two frames of memory an entry.",
    )
    @click.option(
        "-C",
        "--copy-mode",
        type=click.Choice(COPY_MODES),
        default=COPY_MODES[0],
        show_default=True,
        help="Whether packets are copied; auto leaves it to the kernel.",
    )
    @click.option(
        "-m",
        "--no-need-wakeup",
        is_flag=True,
        help="Bind without XDP_USE_NEED_WAKEUP.",
    )
    @click.option(
        "-F",
        "--frags",
        is_flag=True,
        help="Take packets that are longer than a frame, in several.",
    )
    @click.option(
        "-Q",
        "--quiet",
        is_flag=True,
        help="Show the summary only.",
    )
    @common_options(
        extended=("-e", "--extended", "-x", "--extra-stats", "-a", "--app-stats"),
        mode=("-A", "--attach-mode"),
    )
    def command(
        interface: str,
        queue: int,
        frame_bytes: str | None,
        ring: int,
        copy_mode: CopyMode,
        no_need_wakeup: bool,
        frags: bool,
        **common: Any,
    ) -> int:
        from xdplab.live import plans
        from xdplab.live.consumer import XskConsumer
        from xdplab.net.interface import refuse_second_program

        options = Common(**common)
        named = options.interface(interface)
        # Before the socket takes its queue, which another one may have that came with its program.
        refuse_second_program(named)
        consumer = XskConsumer(
            named,
            queue,
            sends_back=name == "xsk-tx",
            frame_bytes=int(frame_bytes) if frame_bytes else None,
            ring=ring,
            copy_mode=copy_mode,
            need_wakeup=not no_need_wakeup,
            frags=frags,
        )
        with contextlib.closing(consumer):
            return options.conduct(plans.xsk(name, named, consumer))

    return command


xsk_drop = _command(
    "xsk-drop",
    """Take every packet of one queue of IFACE into this process by an AF_XDP socket, drop it there,
    and count.

    rx/s is what the XDP program saw, user/s what the process received. Ctrl-C and kill -9 take
    socket and program off IFACE.
    """,
)
xsk_tx = _command(
    "xsk-tx",
    """Take every packet of one queue of IFACE into this process by an AF_XDP socket, send it back
    by the same queue with MAC addresses swapped, and count.

    rx/s is what the XDP program saw, user/s what the process received. Ctrl-C and kill -9 take
    socket and program off IFACE.
    """,
)
