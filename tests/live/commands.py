"""Runs the installed live commands as a user does, each in its namespace, with packets to count."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from tests.cli.command import XDPLAB, environment
from tests.live.pairs import Place

ETH_P_ALL = 3


class Live:
    """A live command that has begun: its program is on the interface."""

    def __init__(self, process: subprocess.Popen[str], said: list[str]) -> None:
        self.process = process
        self.said = said
        """Lines of stderr until it had begun: what the user is told before packets flow."""

    def send_signal(self, number: int) -> None:
        self.process.send_signal(number)

    def rest(self) -> tuple[int, str, str]:
        """Exit status, stdout and the rest of stderr, once it has ended."""
        stdout, stderr = self.process.communicate(timeout=60)
        assert "Traceback" not in stderr, stderr
        return self.process.returncode, stdout, stderr

    def summary(self, *, quiet: bool = False) -> dict[str, Any]:
        """What --json said at the end of a run that ended well; `quiet` ones show no intervals."""
        status, stdout, stderr = self.rest()
        assert status == 0, stderr
        lines = [json.loads(line) for line in stdout.splitlines()]
        assert lines[0]["type"] == "start"
        assert all(line["type"] == "interval" for line in lines[1:-1])
        summary: dict[str, Any] = lines[-1]
        assert summary["type"] == "summary"
        parts = sum(line["packets"] for line in lines[1:-1])
        assert parts == (0 if quiet else summary["packets"])
        return summary | {"start": lines[0]}

    def stop_quietly(self) -> None:
        """End it by Ctrl-C, whatever it counted."""
        self.send_signal(signal.SIGINT)
        status, _, stderr = self.rest()
        assert status == 0, stderr

    def stop(self, *, quiet: bool = False) -> dict[str, Any]:
        """End it by Ctrl-C and return its summary."""
        self.send_signal(signal.SIGINT)
        return self.summary(quiet=quiet)


@contextmanager
def live(
    place: Place,
    *arguments: str,
    prefix: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
) -> Iterator[Live]:
    """`xdplab ARGUMENTS` in a namespace, from when its program is attached; ended at the latest
    when the block is left."""
    with place.namespace:
        process = subprocess.Popen(
            [*prefix, XDPLAB, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(env),
        )
    try:
        assert process.stderr is not None
        said = []
        for line in process.stderr:
            said.append(line)
            if line.startswith(f"xdplab: {arguments[0]} on "):
                yield Live(process, said)
                return
        raise AssertionError(f"status {process.wait(30)} before it began: {''.join(said)}")
    finally:
        process.kill()
        process.communicate(timeout=30)


def run(
    place: Place, *arguments: str, prefix: Sequence[str] = ()
) -> subprocess.CompletedProcess[str]:
    """Run `xdplab ARGUMENTS` in a namespace to its end."""
    with place.namespace:
        return subprocess.run(
            [*prefix, XDPLAB, *arguments],
            capture_output=True,
            text=True,
            env=environment(),
            timeout=60,
            check=False,
        )


def packet_socket(place: Place, interface: str) -> socket.socket:
    """A socket that sends frames out of an interface and hears those that reach its stack."""
    with place.namespace:
        opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        try:
            opened.bind((interface, ETH_P_ALL))
            # Ours come back to us otherwise: PACKET_IGNORE_OUTGOING of linux/if_packet.h.
            opened.setsockopt(263, 23, 1)
            # A small packet takes a page of it; SO_RCVBUFFORCE of asm-generic/socket.h.
            opened.setsockopt(socket.SOL_SOCKET, 33, 1 << 24)
            opened.settimeout(10)
        except BaseException:
            opened.close()
            raise
    return opened


def send(place: Place, interface: str, frame: bytes, count: int) -> None:
    """Send a frame `count` times; returns when the interface has taken the last one."""
    with packet_socket(place, interface) as opened:
        for _ in range(count):
            opened.send(frame)
