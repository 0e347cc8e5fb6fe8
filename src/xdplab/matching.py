"""Which results of different runs are of the same thing, so that they may be compared. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from xdplab.records import TWIN, Document, Result

Key = tuple[str, str, str, str, str | None, str, tuple[tuple[str, int | str], ...]]
"""Suite, engine, method, variant, baseline, metric and parameters."""

_OBJECT = ("count", "object")
"""The suite and the parameter that name a file."""


def by_key(documents: Sequence[Document]) -> dict[Key, list[Result]]:
    """Results with a figure, by what they are of; one for each run at most.

    A/A twins tell what a run can tell apart and are no row of their own.
    """
    found: dict[Key, list[Result]] = {}
    for document in documents:
        of_document: dict[Key, Result] = {}
        measured = [
            result
            for result in document.results
            if result.estimate is not None and result.variant != TWIN
        ]
        # A count's object is named by its file, which before and after a change need not share;
        # only where a run counted several does the name tell rows apart.
        nameless = Counter(_key(result, named=False) for result in measured)
        for result in measured:
            key = _key(result, named=False)
            of_document.setdefault(key if nameless[key] == 1 else _key(result, named=True), result)
        for key, result in of_document.items():
            found.setdefault(key, []).append(result)
    return found


def _key(result: Result, named: bool) -> Key:
    parameters = {
        k: v for k, v in result.parameters.items() if named or (result.suite, k) != _OBJECT
    }
    return (
        result.suite, result.engine, result.method, result.variant, result.baseline, result.metric,
        # By name alone: values of one name may be a number here and a word there.
        tuple(sorted(parameters.items(), key=lambda item: item[0])),
    )  # fmt: skip
