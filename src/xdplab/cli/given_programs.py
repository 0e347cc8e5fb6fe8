"""Programs of the command line as they are to be loaded: with names, variables and map contents."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from xdplab.cli.entries import INTERFACE, Interfaces, placed, read_entries
from xdplab.errors import UsageError
from xdplab.program.chosen import Chosen
from xdplab.program.uses import uses
from xdplab.suites.own import Own


def given_programs(
    words: Sequence[str],
    chosen: Sequence[Chosen],
    settings: Sequence[str],
    maps: Path | None,
    interfaces: Interfaces,
) -> list[Own]:
    """The `chosen` programs of these words, with what --set and --maps have for each.

    UsageError for a variable or a map that none has, and for values that do not fit.
    """
    values = dict(_setting(text, interfaces) for text in settings)
    tables = read_entries(maps) if maps is not None else {}
    known: set[str] = set()
    own = []
    for name, one in zip(_names(words, chosen), chosen, strict=True):
        constants: dict[str, int | bytes] = {}
        variables: dict[str, int] = {}
        for variable, value in values.items():
            of_global = one.spec.globals.get(variable)
            if of_global is None:
                continue
            known.add(variable)
            of_global.encode(value)
            if of_global.section.startswith(".rodata"):
                constants[variable] = value
            elif isinstance(value, int):
                variables[variable] = value
            else:
                raise UsageError(
                    f"--set {variable}=hex:... is for constants (const volatile); {variable} is in "
                    f"{of_global.section}, whose numbers alone can be set"
                )
        known |= {f"map {table}" for table in tables if table in one.spec.maps}
        spec, of_maps = placed(tables, one.spec, maps, interfaces)
        # A program is loaded with its own maps alone.
        _, used = uses(spec, (one.program.name,))
        of_maps = {m: entries for m, entries in of_maps.items() if m in used}
        own.append(Own(name, spec, one.program.name, constants, variables, of_maps))
    for variable in values:
        if variable not in known:
            has = sorted({name for one in chosen for name in one.spec.globals})
            raise UsageError(
                f"--set {variable}: no program here has that global variable. "
                + (f"There are: {', '.join(has)}" if has else "They have none")
            )
    for table in tables:
        if f"map {table}" not in known:
            has = sorted({name for one in chosen for name in one.spec.maps})
            raise UsageError(
                f"{maps} has entries for the map {table!r}, which no program here has. "
                + (f"There are: {', '.join(has)}" if has else "They have none")
            )
    return own


def _setting(text: str, interfaces: Interfaces) -> tuple[str, int | bytes]:
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise UsageError(f"--set {text!r} was given; it must be NAME=VALUE")
    if value.startswith(INTERFACE):
        return name, interfaces(value.removeprefix(INTERFACE))
    try:
        if value.startswith("hex:"):
            return name, bytes.fromhex(value.removeprefix("hex:"))
        return name, int(value, 0)
    except ValueError:
        raise UsageError(
            f"--set {name}={value}: give a whole number (10, -1, 0x10), hex:00ff..., or an "
            "interface's number as if:NAME"
        ) from None


def _names(words: Sequence[str], chosen: Sequence[Chosen]) -> list[str]:
    """Short names that tell the programs apart: those of the programs, else with their objects,
    else with their places on the command line."""
    short = [one.program.name for one in chosen]
    longer = [f"{one.spec.name}:{one.program.name}" for one in chosen]
    numbered = [f"{name} ({place})" for place, name in enumerate(longer, 1)]
    reserved = {"empty", "aa-twin", "all"}
    for names in (short, longer, numbered):
        if len(set(names)) == len(words) and not reserved & set(names):
            return names
    raise AssertionError("numbered names differ")
