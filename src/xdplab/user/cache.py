"""Compiled programs on disk, so that a program is compiled once a machine.

An entry's name is a hash of all that its code depends on; its content begins with a hash of the
rest. A cache that cannot be written, or an entry that is damaged, is as good as none.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import tempfile
from pathlib import Path

MAXIMUM_ENTRIES = 1000
"""Entries kept; above that the older half goes."""

_DIGEST_BYTES = hashlib.sha256().digest_size


class ObjectCache:
    """A folder of compiled objects; any number of processes may use one at once."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._is_users = folder is None

    @property
    def folder(self) -> Path:
        """Where the entries are: the user's cache folder unless another was given."""
        if self._folder is None:
            self._folder = _users_folder()
        return self._folder

    def read(self, key: str) -> bytes | None:
        """What was kept under `key` (a file name), None where there is nothing whole."""
        try:
            content = self._path(key).read_bytes()
        except OSError:
            return None
        digest, data = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
        return data if data and hashlib.sha256(data).digest() == digest else None

    def write(self, key: str, data: bytes) -> None:
        """Keep `data`; where that fails nothing happens."""
        with contextlib.suppress(OSError):
            self._make_folder()
            self._prune()
            # Readers see a whole entry or none: a name appears when its file is complete.
            handle, scratch = tempfile.mkstemp(dir=self.folder, prefix=".new-")
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(hashlib.sha256(data).digest() + data)
                Path(scratch).replace(self._path(key))
            except BaseException:
                Path(scratch).unlink(missing_ok=True)
                raise

    def _make_folder(self) -> None:
        # A home that is not there (a service's, such as /nonexistent) is not made for a cache.
        if self._is_users and not Path.home().is_dir() and Path.home() in self.folder.parents:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(Path.home()))
        self.folder.mkdir(parents=True, exist_ok=True)

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}.o"

    def _prune(self) -> None:
        entries = list(self.folder.iterdir())
        if len(entries) < MAXIMUM_ENTRIES:
            return
        ages: list[tuple[float, Path]] = []
        for entry in entries:
            with contextlib.suppress(OSError):
                ages.append((entry.stat().st_mtime, entry))
        ages.sort()
        for _, entry in ages[: len(ages) // 2]:
            entry.unlink(missing_ok=True)


def _users_folder() -> Path:
    import platformdirs

    folder = platformdirs.user_cache_path("xdplab")
    if not folder.is_absolute():
        # "All paths set in these environment variables must be absolute [...] consider the path
        # invalid and ignore it" (XDG Base Directory Specification): not one here, one there.
        folder = Path.home() / ".cache" / "xdplab"
    return folder / "programs"
