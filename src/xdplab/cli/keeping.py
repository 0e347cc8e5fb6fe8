"""What commands that measure share about the store: --store, --no-store, --tag and --note."""

from __future__ import annotations

import functools
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from xdplab.cli.arguments import FilePath
from xdplab.errors import StoreError, UsageError
from xdplab.records import Document
from xdplab.store.recorder import Recorder
from xdplab.store.schema import VARIABLE, default_path
from xdplab.store.store import Store, check_tag

if TYPE_CHECKING:
    from xdplab.experiment import Keeper


def store_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """--store FILE, passed on as `store`."""
    return click.option(
        "--store",
        type=FilePath(),
        metavar="FILE",
        help=f"The file of stored runs. Default: {VARIABLE}, else one in your data directory.",
    )(function)


@dataclass(frozen=True, slots=True)
class Keeping:
    """Where a run is to be kept and what it is called; `chosen` None: in the user's own store."""

    is_on: bool
    chosen: Path | None
    tags: tuple[str, ...]
    note: str

    @contextmanager
    def keep(self, document: Callable[[], Document]) -> Iterator[Keeper | None]:
        """Keep a run while it is measured. `document` says at any time what it is so far.

        A store that is of no use is said on stderr, once, and the run goes on; StoreError
        where it was chosen, while nothing has been measured yet.
        """
        recorder = self._recorder(self.named(document()))
        try:
            yield recorder
        finally:
            if recorder is not None:
                self._say_kept(_finished(recorder, self.named(document())))

    def check(self) -> None:
        """StoreError where the chosen store is of no use: to be asked before measuring."""
        if self.chosen is not None:
            Store(self.chosen, write=True).close()

    def put(self, before: Document, after: Document | None = None) -> None:
        """Keep what was measured at once; two that are to be compared are told of together."""
        kept = []
        for document in (self.named(one) for one in (before, after) if one is not None):
            recorder = self._recorder(document)
            if recorder is not None:
                kept += _finished(recorder, document)
        self._say_kept(kept)

    def _say_kept(self, kept: Sequence[str]) -> None:
        """Where the runs are, if any, and what one does with them next."""
        if not kept:
            return
        if len(kept) > 1:
            words = " ".join(kept)
            after = (
                f"xdplab compare {words} (--format commit for a patch's message), "
                f"xdplab report {words} (a page)"
            )
        else:
            after = "xdplab show last, xdplab report last (a page), xdplab compare last~1 last"
        where = f", each with --store {shlex.quote(str(self.chosen))}" if self.chosen else ""
        click.echo(f"xdplab: kept as {' and '.join(kept)}; next: {after}{where}", err=True)

    def named(self, document: Document) -> Document:
        """The document with the tags and the note that were given; without one it keeps its own."""
        note = self.note or document.run.note
        return replace(document, run=replace(document.run, tags=self.tags, note=note))

    def _recorder(self, begun: Document) -> Recorder | None:
        if not self.is_on:
            return None
        try:
            return Recorder(self.chosen or default_path(), begun)
        except StoreError as error:
            if self.chosen is not None:
                raise
            _say(error, "not kept, but goes on")
        return None


def _finished(recorder: Recorder, document: Document) -> list[str]:
    """The run's id once it is kept; what kept it from that is said."""
    if recorder.finish(document):
        return [document.run.id]
    if recorder.failure is not None:
        _say(recorder.failure, "not kept, or not all of it")
    return []


def _say(error: StoreError, what: str) -> None:
    click.echo(f"xdplab: this run is {what}: {error}", err=True)


def keeping_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """--store, --no-store, --tag and --note, passed on as `keeping`."""

    @store_option
    @click.option("--no-store", is_flag=True, help="Do not keep this run.")
    @click.option(
        "--tag",
        "tags",
        multiple=True,
        metavar="TAG",
        help="Call this run so, such as before; may be given several times, and several runs may "
        "have one tag.",
    )
    @click.option("--note", default="", metavar="TEXT", help="Keep this remark with the run.")
    @functools.wraps(function)
    def with_keeping(
        *arguments: Any,
        store: Path | None,
        no_store: bool,
        tags: tuple[str, ...],
        note: str,
        **options: Any,
    ) -> Any:
        if no_store and (store or tags or note):
            raise UsageError("--no-store keeps nothing that --store, --tag or --note could be for")
        keeping = Keeping(
            is_on=not no_store,
            chosen=store,
            tags=tuple(dict.fromkeys(map(check_tag, tags))),
            note=note,
        )
        return function(*arguments, keeping=keeping, **options)

    return with_keeping
