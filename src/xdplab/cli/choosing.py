"""Which runs the words of a command line mean: ids, tags, last, files and standard input."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from xdplab.documents import documents_from_text
from xdplab.errors import UsageError
from xdplab.records import Document
from xdplab.store.schema import default_path, worded
from xdplab.store.store import Store


def documents_meant(word: str, store: Path | None) -> list[Document]:
    """The documents of the runs that `word` means, oldest first; a tag may name several.

    `-` is standard input. What has a slash or ends in .json is a file; anything else is looked
    up in the store first. UsageError where nothing is meant.
    """
    if word == "-":
        if sys.stdin is None:
            raise UsageError("standard input is closed: there is no document to read from it")
        return documents_from_text(sys.stdin.buffer.read(), "standard input")
    path = Path(word)
    if os.sep in word or path.suffix == ".json":
        return _documents_in(path)
    name = store or default_path()
    with worded(name):
        is_there = name.exists()
    if is_there:
        with Store(name) as opened:
            ids = opened.resolve(word)
            if ids:
                return [opened.document(run_id) for run_id in ids]
    with contextlib.suppress(OSError):
        if path.is_file():
            return _documents_in(path)
    raise _nothing(word, name)


def ids_meant(words: Sequence[str], opened: Store) -> dict[str, list[str]]:
    """Word -> the ids of the stored runs that it means. UsageError for one that means none."""
    found = {word: opened.resolve(word) for word in words}
    for word, ids in found.items():
        if not ids:
            raise _nothing(word, opened.path)
    return found


def _documents_in(path: Path) -> list[Document]:
    try:
        text = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}. Give another file") from None
    return documents_from_text(text, str(path))


def _nothing(word: str, store: Path) -> UsageError:
    return UsageError(
        f"there is no run, tag or file {word!r} (the store is {store}). See xdplab list"
    )
