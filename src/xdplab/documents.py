"""Result documents read back, whoever wrote them: checked field by field, errors name the place."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from xdplab.errors import UsageError
from xdplab.records import (
    SCHEMA,
    Document,
    Estimate,
    Finding,
    Result,
    RunInfo,
    Trial,
    Warning,
)


class _Fields:
    """An object of a document that is read field by field; errors name the place."""

    def __init__(self, value: object, where: str) -> None:
        if not isinstance(value, Mapping):
            raise _damaged(where, value, "an object")
        self._value = value
        self._where = where

    def get(self, name: str) -> object:
        if name not in self._value:
            raise UsageError(
                f"reading the result document failed: {self._where or 'it'} has no {name!r}. "
                "Is it complete, and was it written by xdplab?"
            )
        return self._value[name]

    def has(self, name: str) -> bool:
        return self._value.get(name) is not None

    def fields(self, name: str) -> _Fields:
        return _Fields(self.get(name), self.place(name))

    def each(self, name: str) -> list[tuple[object, str]]:
        value = self.get(name)
        if not isinstance(value, list):
            raise _damaged(self.place(name), value, "a list")
        return [(item, f"{self.place(name)}[{index}]") for index, item in enumerate(value)]

    def text(self, name: str) -> str:
        return _text(self.get(name), self.place(name))

    def number(self, name: str) -> float:
        return _number(self.get(name), self.place(name))

    def whole(self, name: str) -> int:
        return _whole(self.get(name), self.place(name))

    def texts(self, name: str) -> tuple[str, ...]:
        return tuple(_text(item, place) for item, place in self.each(name))

    def wholes(self, name: str) -> tuple[int, ...]:
        return tuple(_whole(item, place) for item, place in self.each(name))

    def mapping(self, name: str) -> dict[str, Any]:
        value = self.get(name)
        if not isinstance(value, Mapping):
            raise _damaged(self.place(name), value, "an object")
        return dict(value)

    def mapping_of_wholes(self, name: str) -> dict[str, int]:
        place = self.place(name)
        return {key: _whole(value, f"{place}.{key}") for key, value in self.mapping(name).items()}

    def place(self, name: str) -> str:
        return f"{self._where}.{name}" if self._where else name


def _damaged(where: str, value: object, wanted: str) -> UsageError:
    return UsageError(
        f"reading the result document failed: {where or 'it'} is {type(value).__name__}, where "
        f"{wanted} is expected. Is it complete, and was it written by xdplab?"
    )


def _text(value: object, where: str) -> str:
    if not isinstance(value, str):
        raise _damaged(where, value, "text")
    return value


def _number(value: object, where: str) -> float:
    # True is a number to Python, and to nobody else.
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _damaged(where, value, "a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise _damaged(where, value, "a finite number")
    return number


def _whole(value: object, where: str) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    number = _number(value, where)
    if not number.is_integer():
        raise _damaged(where, value, "a whole number")
    return int(number)


def documents_from_text(text: str | bytes, name: str) -> list[Document]:
    """The documents of a JSON text: one, or a list of them. UsageError names `name`, the file."""
    try:
        data = json.loads(text)
    # Deeper than Python can follow is no document either.
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"{name} is no result document: it is no JSON ({error}). Give a file that xdplab "
            "wrote (--json, or xdplab export)"
        ) from None
    try:
        return [document_from_json(item) for item in (data if isinstance(data, list) else [data])]
    except UsageError as error:
        raise UsageError(f"{name}: {error}") from None


def document_from_json(data: object) -> Document:
    """Read a result document back; UsageError names the part that is not as it should be."""
    root = _Fields(data, "")
    schema = root.get("schema")
    if type(schema) is not int or schema != SCHEMA:
        # Shortened: whoever wrote it may have written a book.
        shown = repr(schema)[:20] if isinstance(schema, str | int) else type(schema).__name__
        raise UsageError(
            f"the document has schema {shown}; this xdplab reads {SCHEMA}. "
            "Was it made by a newer version, or is it no result document?"
        )
    run = root.fields("run")
    complete = run.get("complete") if run.has("complete") else True
    return Document(
        run=RunInfo(
            id=run.text("id"),
            started_at=run.text("started_at"),
            duration_s=run.number("duration_s"),
            command=tuple(str(word) for word, _ in run.each("command")),
            xdplab_version=run.text("xdplab_version"),
            complete=bool(complete),
            tags=run.texts("tags") if run.has("tags") else (),
            note=run.text("note") if run.has("note") else "",
        ),
        environment=root.mapping("environment"),
        results=tuple(_result(_Fields(item, place)) for item, place in root.each("results")),
        warnings=tuple(
            Warning(
                fields.text("code"),
                fields.text("message"),
                fields.text("remedy") if fields.has("remedy") else "",
            )
            for fields in (_Fields(item, place) for item, place in root.each("warnings"))
        ),
        findings=tuple(
            Finding(fields.text("suite"), fields.text("engine"), fields.text("text"))
            for fields in (
                _Fields(item, place)
                for item, place in (root.each("findings") if root.has("findings") else [])
            )
        ),
    )


def result_from_json(data: object) -> Result:
    """One result of a document read back; UsageError names the part that is not as it should be."""
    return _result(_Fields(data, "result"))


def _result(item: _Fields) -> Result:
    samples = item.fields("samples")
    return Result(
        suite=item.text("suite"),
        engine=item.text("engine"),
        variant=item.text("variant"),
        baseline=item.text("baseline") if item.get("baseline") is not None else None,
        parameters=item.mapping("parameters"),
        metric=item.text("metric"),
        method=item.text("method"),
        estimate=_estimate(item) if item.get("point") is not None else None,
        resolution=item.number("resolution") if item.get("resolution") is not None else None,
        verdict=item.text("verdict"),
        operations_per_call=samples.whole("operations_per_call"),
        trials=tuple(_trial(_Fields(trial, place)) for trial, place in samples.each("trials")),
        note=item.text("note") if item.has("note") else "",
        cycles=_estimate(item.fields("cycles")) if item.has("cycles") else None,
    )


def _estimate(item: _Fields) -> Estimate:
    try:
        return Estimate(
            point=item.number("point"),
            low=item.number("low") if item.get("low") is not None else -math.inf,
            high=item.number("high") if item.get("high") is not None else math.inf,
            level=item.number("level"),
            n=item.whole("n"),
        )
    except ValueError as error:
        raise UsageError(
            f"reading the result document failed: {item.place('point')}: {error}"
        ) from None


def _trial(trial: _Fields) -> Trial:
    placement = trial.wholes("placement")
    if len(placement) != 2:
        raise _damaged(trial.place("placement"), trial.get("placement"), "a pair")
    return Trial(
        baseline_ns=trial.wholes("baseline_ns"),
        variant_ns=trial.wholes("variant_ns"),
        placement=(placement[0], placement[1]),
        interrupted=trial.whole("interrupted"),
        duration_ns=trial.whole("duration_ns") if trial.get("duration_ns") is not None else None,
        clock_ghz=trial.number("clock_ghz") if trial.has("clock_ghz") else None,
        # Documents of before live paths have none.
        counts=trial.mapping_of_wholes("counts") if trial.has("counts") else {},
        preempted=trial.whole("preempted") if trial.has("preempted") else 0,
    )
