"""What programs of an object need to be there: other programs, and maps."""

from __future__ import annotations

from collections.abc import Iterable

from xdplab.program.spec import ObjectSpec


def uses(spec: ObjectSpec, names: Iterable[str]) -> tuple[frozenset[str], frozenset[str]]:
    """Names of entry programs and of maps that must be there for these programs and maps.

    These themselves, what programs use by way of subprograms and callbacks, and what the source
    puts into prog arrays and maps of maps.
    """
    functions = {**spec.subprograms, **spec.programs}
    seen: set[str] = set()
    maps: set[str] = set()
    left = list(names)
    while left:
        name = left.pop()
        if name in maps or name in seen:
            continue
        if name in spec.maps:
            maps.add(name)
            left += (spec.maps[name].values or {}).values()
        elif name in functions:
            seen.add(name)
            left += (
                relocation.symbol
                for relocation in functions[name].relocations
                if relocation.kind in {"map", "call", "func"}
            )
    return frozenset(seen & spec.programs.keys()), frozenset(maps)
