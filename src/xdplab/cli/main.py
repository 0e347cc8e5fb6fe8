"""The command `xdplab`: finds its commands when they are called, words every error once."""

from __future__ import annotations

import contextlib
import errno
import importlib
import io
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from xdplab import __version__
from xdplab.errors import XdplabError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_COMMANDS = {
    "run": "measure the built-in suites on this machine",
    "bench": "measure your own programs: what one costs, or how several differ",
    "count": "count a program's instructions exactly, per packet and per source line",
    "drop": "drop an interface's packets and count them",
    "pass": "pass an interface's packets on to the stack and count them",
    "tx": "send an interface's packets back out of it and count them",
    "redirect": "send an interface's packets out of another one and count them",
    "redirect-map": "the same by way of a devmap",
    "redirect-multi": "send packets of each interface out of all others and count them",
    "redirect-cpu": "hand an interface's packets to other CPUs and count them",
    "xsk-drop": "take a queue's packets by an AF_XDP socket, drop and count them",
    "xsk-tx": "take a queue's packets by an AF_XDP socket, send them back and count them",
    "kernel": "measure on other kernels in guests: before and after a patch",
    "trafficgen": "send packets out of an interface and count them",
    "compare": "compare runs row by row: before and after, or machines side by side",
    "report": "write a run, or what changed between two, as one page of HTML with plots",
    "list": "list stored runs",
    "show": "show a stored run's tables again",
    "tag": "change what stored runs are called",
    "export": "write stored runs as JSON, CSV, for pyperf or for a CI dashboard",
    "import": "put result documents into the store",
    "rm": "remove stored runs",
    "completion": "print what bash, zsh or fish must read to complete words with Tab",
    "doctor": "say what can be measured here, what disturbs it, and what to do",
}
"""Command -> its line in `xdplab --help`."""

_PLACES = {
    "drop": "live_basic:drop",
    "pass": "live_basic:pass_",
    "tx": "live_basic:tx",
    "redirect": "live_redirect:redirect",
    "redirect-map": "live_redirect:redirect_map",
    "redirect-multi": "live_redirect:redirect_multi",
    "redirect-cpu": "live_redirect:redirect_cpu",
    "xsk-drop": "live_xsk:xsk_drop",
    "xsk-tx": "live_xsk:xsk_tx",
    "import": "import_:command",
}
"""Where a command is that is not `command` in the module xdplab.cli.NAME."""

INTERRUPTED_STATUS = 130
"""Exit status of what Ctrl-C ended: 128 and the number of SIGINT, as shells have it."""


class _Commands(click.Group):
    """Imports a command's module only when it is called, so that --help is quick."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module, _, name = _PLACES.get(cmd_name, f"{cmd_name}:command").partition(":")
        command: click.Command = getattr(importlib.import_module(f"xdplab.cli.{module}"), name)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        # click's own would import every command to see which are hidden.
        found = [
            CompletionItem(name, help=line)
            for name, line in _COMMANDS.items()
            if name.startswith(incomplete)
        ]
        return found + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="xdplab")
def cli() -> None:
    """Measure what every nanosecond of an XDP packet path costs, and how sure that is.

    Exit status: 0 done; 1 worse than compare --fail-above allows; 2 the request is wrong; 3 not
    possible here (the message says why and what to do); 130 ended by Ctrl-C (what was measured or
    counted until then is kept).
    """


def main(arguments: list[str] | None = None) -> Any:
    """Entry point: runs the command line and ends the process with its exit status."""
    with _stderr_that_cannot_fail():
        status = _status(arguments)
    sys.exit(status if isinstance(status, int) else 0)


def _status(arguments: list[str] | None) -> Any:
    """Run the command line; its exit status, once everything was said."""
    try:
        status = cli.main(args=arguments, prog_name="xdplab", standalone_mode=False)
        if sys.stdout is not None:
            sys.stdout.flush()
    except XdplabError as error:
        click.echo(f"xdplab: {error}", err=True)
        status = error.exit_code
    except click.ClickException as error:
        error.show()
        status = error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("xdplab: ended by Ctrl-C before it was done", err=True)
        status = INTERRUPTED_STATUS
    except BrokenPipeError:
        # The reader of our output went away (| head): there is nobody left to tell.
        _silence_stdout()
        status = 0
    except MemoryError:
        click.echo("xdplab: there is not enough memory; give it more, or --time less", err=True)
        status = XdplabError.exit_code
    except OSError as error:
        click.echo(f"xdplab: {_why_failed(error)}", err=True)
        _silence_stdout()
        status = XdplabError.exit_code
    return status


def _why_failed(error: OSError) -> str:
    reason = error.strerror or str(error)
    if error.errno in {errno.EMFILE, errno.ENFILE}:
        return f"a file could not be opened: {reason}. Let it have more open files (ulimit -n)"
    if error.filename is not None:
        place = str(error.filename)
        system = next((top for top in ("/sys", "/proc") if place.startswith(top)), "")
        remedy = f". Is {system} mounted here?" if system else ""
        return f"{place!r} could not be used: {reason}{remedy}"
    if error.errno in {errno.ENODEV, errno.ENXIO}:
        return f"an interface was removed meanwhile: {reason}"
    # What cannot be saved anywhere else is said where it happens; this is the output itself.
    return f"writing the output failed: {reason}"


class _Bearing(io.FileIO):
    """A descriptor to which writing always succeeds: what it does not take is lost."""

    def write(self, data: ReadableBuffer, /) -> int:
        size = memoryview(data).nbytes
        try:
            return super().write(data) or size
        except OSError:
            return size


@contextlib.contextmanager
def _stderr_that_cannot_fail() -> Iterator[None]:
    """A standard error that is full, closed or without a reader changes nothing but itself: not
    the exit status, not what is measured. So no place that writes to it has to mind.
    """
    before = sys.stderr
    # Another one was put there by whoever calls this, who minds it.
    if before is sys.__stderr__:
        # Where it is closed, descriptor 2 is the lowest that is free. To leave it so would have
        # what C libraries say written into whichever file is opened next.
        raw = (
            _Bearing(os.devnull, "w")
            if before is None
            else _Bearing(before.fileno(), "w", closefd=False)
        )
        sys.stderr = io.TextIOWrapper(
            io.BufferedWriter(raw),
            encoding=before.encoding if before else None,
            errors="backslashreplace",
            line_buffering=True,
        )
    try:
        yield
    finally:
        sys.stderr.flush()
        sys.stderr = before


def _silence_stdout() -> None:
    """Keep the interpreter from trying once more, at its end, what has just failed."""
    if sys.stdout is None:
        return
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
