"""xdplab tag: what stored runs are called, changed later."""

from __future__ import annotations

from pathlib import Path

import click

from xdplab.cli import completion
from xdplab.cli.choosing import ids_meant
from xdplab.cli.keeping import store_option
from xdplab.errors import UsageError
from xdplab.store.schema import default_path
from xdplab.store.store import Store, check_tag
from xdplab.views.stored import heading


@click.command()
@click.argument("run", shell_complete=completion.runs)
@click.argument("tags", metavar="[TAG]...", nargs=-1)
@click.option("--remove", multiple=True, metavar="TAG", help="Take this tag away.")
@click.option("--note", metavar="TEXT", help="Replace the run's note; an empty one removes it.")
@store_option
def command(
    run: str, tags: tuple[str, ...], remove: tuple[str, ...], note: str | None, store: Path | None
) -> None:
    """Give a stored RUN more TAGs, take some away, change its note; say how it is called then.

    Where RUN is a tag, all runs that have it are meant.
    """
    if not tags and not remove and note is None:
        raise UsageError("nothing is to be changed: give a TAG, --remove TAG or --note TEXT")
    added = [check_tag(tag) for tag in tags]
    with Store(store or default_path(), write=True) as opened:
        for run_id in ids_meant([run], opened)[run]:
            called = opened.rename(run_id, add=added, remove=remove, note=note)
            click.echo(heading(called))
