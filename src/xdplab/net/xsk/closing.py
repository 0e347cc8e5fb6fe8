"""What has a `close()` is a context manager."""

from __future__ import annotations

from types import TracebackType
from typing import Self


class Closing:
    """`with` this: it is closed at the end, whatever happens."""

    __slots__ = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give up what is held."""
        raise NotImplementedError
