"""xdplab rm: runs out of the store."""

from __future__ import annotations

from pathlib import Path

import click

from xdplab.cli import completion
from xdplab.cli.choosing import ids_meant
from xdplab.cli.keeping import store_option
from xdplab.errors import UsageError
from xdplab.store.schema import default_path
from xdplab.store.store import Store


@click.command()
@click.argument("run", nargs=-1, required=True, shell_complete=completion.runs)
@click.option("--all", "every", is_flag=True, help="Where a tag names several runs, all of them.")
@store_option
def command(run: tuple[str, ...], every: bool, store: Path | None) -> None:
    """Remove stored RUNs with their samples, for good, and say which."""
    with Store(store or default_path(), write=True) as opened:
        meant = ids_meant(run, opened)
        for word, ids in meant.items():
            if len(ids) > 1 and not every:
                raise UsageError(
                    f"{word!r} names {len(ids)} runs; nothing was removed. Give --all to remove "
                    "them all, or the id of one"
                )
        ids = list(dict.fromkeys(run_id for ids in meant.values() for run_id in ids))
        opened.remove(ids)
    for run_id in ids:
        click.echo(f"removed {run_id}")
