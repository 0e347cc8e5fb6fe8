"""The tables of the suite memset, and where one way becomes cheaper than another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from xdplab.engines.base import Method
from xdplab.records import TWIN, Estimate, Result
from xdplab.stats import estimates
from xdplab.stats.crossings import Comparison, compare
from xdplab.suites.base import Results
from xdplab.suites.memset_families import (
    CALL,
    FAMILIES,
    LOOP,
    PAGE,
    PAGE_BYTES,
    PLACES,
    PUBLISHED_LOOP_NS,
    PUBLISHED_NS,
    REFERENCE_CYCLE,
    STORED_BYTES,
)
from xdplab.suites.table import Cell, Column, Figure, Published, Row, Table

_TITLES = {family.variant: family.title for family in FAMILIES}

STORES, STOSQ = "stores", "rep-stosq"
"""What is compared of constant sizes: stores in place, of any size (`constant` as far as that is
stores, then `constant-stores`), and rep stosq (`constant` from there on)."""

PAIRS = (
    (STORES, STOSQ),
    (STORES, "blocks"),
    ("blocks", "run-time"),
    ("blocks", "words"),
    ("words", "run-time"),
    ("words", "rep-stosb"),
    ("avx2", "rep-stosb"),
    ("words", "libc"),
    ("avx2", "libc"),
)
"""Families that are compared size by size: each with what would stand in its place."""


def tables(results: Results, notes: Sequence[str]) -> list[Table]:
    """Those of native functions, or of BPF programs, whichever these results are of."""
    if any(result.variant == REFERENCE_CYCLE for result in results.all()):
        return [_costs(results, notes), _rates(results), _beside_published(results)]
    return [_in_bpf(results, notes)]


# --- native functions


def _found(results: Results, variant: str, size_bytes: int) -> Result | None:
    """A native function's cost over the loop, whatever else its parameters tell."""
    for result in results.all():
        if (
            result.variant == variant
            and result.metric == "cost_ns"
            and result.parameters.get("size_bytes") == size_bytes
            and "place" not in result.parameters
        ):
            return result
    return None


def _sizes() -> list[int]:
    return sorted({size for family in FAMILIES for size in family.sizes})


def _loop(results: Results) -> Result | None:
    return results.find(LOOP, {}, metric="gross_ns")


def costs_by_size(results: Results, family: str) -> dict[int, Estimate]:
    """Size in bytes -> cost over the loop in ns, for the sizes that were measured."""
    found = {}
    for size in _sizes():
        variant = family
        if family in {STORES, STOSQ}:
            stored = size <= STORED_BYTES
            if family == STOSQ and stored:
                continue
            variant = "constant-stores" if family == STORES and not stored else "constant"
        result = _found(results, variant, size)
        if result is not None and result.estimate is not None:
            found[size] = result.estimate
    return found


def _costs(results: Results, notes: Sequence[str]) -> Table:
    loop = _loop(results)
    rows = [Row(("loop alone", Figure.of(loop) if loop else None, *[None] * (len(FAMILIES) - 1)))]
    for size in _sizes():
        cells: list[Cell] = [size]
        for family in FAMILIES:
            result = _found(results, family.variant, size)
            cells.append(Figure.of(result) if result else None)
        rows.append(Row(tuple(cells), begins_section=size == _sizes()[0]))
    return Table(
        "memset: what clearing memory costs, net of the loop",
        (Column("size", "B"), *(Column(family.title, "ns") for family in FAMILIES)),
        rows,
        (*notes, *_reading(results), *_unsupported(results), *_crossings(results)),
    )


def _reading(results: Results) -> Iterator[str]:
    libc = next((r.parameters["libc"] for r in results.all() if "libc" in r.parameters), "unknown")
    yield (
        "loop alone: a turn of the loop around each of them, which all other figures are net of. "
        f"constant size: stores up to {STORED_BYTES} B, rep stosq above. constant, stores: stores "
        f"above {STORED_BYTES} B, too. blocks + switch: 32 B a turn, a switch over the words that "
        "remain."
    )
    yield (
        "Sizes at run time, in a function that is called: run-time size: rep stosq, then rep stosb "
        "for the rest; words: eight words a turn, the scheme of the kernel's word-wise routine; C "
        f"library: memset of {libc}, through its address. rep stosb and AVX2 are in place."
    )
    yield (
        "Memory is in the first-level cache and begins at a page; code has no vector registers but "
        "in AVX2 and the C library's."
    )
    twin = next((r for r in results.all() if r.variant == TWIN), None)
    if twin and twin.estimate:
        yield f"In the same run: words, 256 B, against itself {twin.estimate.point:+.3f} ns."


def _unsupported(results: Results) -> Iterator[str]:
    """What has no figure at any size, with the reason once instead of in every row."""
    for family in FAMILIES:
        found = [r for r in results.all() if r.variant == family.variant and r.metric == "cost_ns"]
        notes = {result.note for result in found if result.estimate is None and result.note}
        if notes:
            yield f"{family.title}, not everywhere: {'; '.join(sorted(notes))}."


def _rates(results: Results) -> Table:
    cycle = results.find(REFERENCE_CYCLE, {}, metric="gross_ns")
    rows = []
    for size in _sizes():
        cells: list[Cell] = [size]
        for family in FAMILIES:
            rate = _bytes_per_cycle(_found(results, family.variant, size), cycle)
            cells.append(Figure(rate, digits=1, bare=True) if rate else None)
        rows.append(Row(tuple(cells)))
    notes = []
    if cycle and cycle.estimate:
        notes.append(
            "A reference cycle is a count of the time stamp counter, at one rate whatever the "
            f"core's clock does: measured {1 / cycle.estimate.point:.3f} GHz. From the costs above."
        )
    elif cycle and cycle.note:
        notes.append(f"No reference cycles: {cycle.note}.")
    return Table(
        "memset: bytes a reference cycle (TSC), net of the loop",
        (Column("size", "B"), *(Column(family.title, "B/cycle") for family in FAMILIES)),
        rows,
        notes,
    )


def _bytes_per_cycle(result: Result | None, cycle: Result | None) -> Estimate | None:
    if not result or not result.estimate or not cycle or not cycle.estimate:
        return None
    size = result.parameters["size_bytes"]
    assert isinstance(size, int)
    one = Estimate(size, size, size, cycle.estimate.level, result.estimate.n)
    cycles = estimates.ratio(result.estimate, cycle.estimate)
    return estimates.ratio(one, cycles) if cycles else None


def _beside_published(results: Results) -> Table:
    cycle = results.find(REFERENCE_CYCLE, {}, metric="gross_ns")
    loop = _loop(results)
    rows = []
    if loop:
        published = Published(PUBLISHED_LOOP_NS)
        rows.append(Row(("loop alone", None, Figure.of(loop), None, None, None, published)))
    for variant, size in (*PUBLISHED_NS, *((page, PAGE_BYTES) for page in PAGE)):
        net = _found(results, variant, size)
        if net is None:
            continue
        gross = results.find(
            variant, {"size_bytes": size}, metric="gross_ns", method=Method.OPERATION
        )
        rate = _bytes_per_cycle(net, cycle)
        text = PUBLISHED_NS.get((variant, size))
        title = _TITLES.get(variant) or variant.replace("page-", "page, ").replace("-", " ")
        cells: tuple[Cell, ...] = (
            title,
            size,
            Figure.of(gross) if gross else None,
            Figure.of(net),
            Figure.cycles_of(net),
            Figure(rate, digits=1, bare=True) if rate else None,
            Published(text) if text else None,
        )
        rows.append(Row(cells, note=net.note, begins_section=variant == PAGE[0]))
    return Table(
        "memset: beside published figures, and a page",
        (
            Column("way"),
            Column("size", "B"),
            Column("with its loop", "ns"),
            Column("net", "ns"),
            Column("net", "core cycles"),
            Column("net", "B/reference cycle"),
            Column("published with its loop", "ns"),
        ),
        rows,
        (
            "published: a loop around memset in a kernel, its own cost in each figure; 256 B on an "
            "Intel E5-1650 v4, 32 B and the loop on an unnamed machine. words is its MOVQ, "
            "constant size its rep stos. Compare the order and the steps, not levels.",
        ),
    )


# --- crossings


def comparisons(results: Results) -> Mapping[tuple[str, str], Comparison]:
    """Every pair of families that both have figures, compared size by size."""
    twin = next((r for r in results.all() if r.variant == TWIN), None)
    resolution = twin.resolution if twin else None
    found = {}
    for first, second in PAIRS:
        one, other = costs_by_size(results, first), costs_by_size(results, second)
        if one.keys() & other.keys():
            found[first, second] = compare(one, other, resolution)
    return found


def name_of(family: str) -> str:
    """What a family is called in prose and in a legend."""
    names = {STORES: "constant, stores", STOSQ: "constant, rep stosq"}
    return names.get(family) or _TITLES[family]


def _crossings(results: Results) -> Iterator[str]:
    yield (
        "Which is cheaper, as far as intervals do not overlap and the run's resolution allows; "
        "between the sizes named nothing was measured or decided:"
    )
    for (first, second), comparison in comparisons(results).items():
        yield _sentence(name_of(first), name_of(second), comparison)


def _sentence(first: str, second: str, comparison: Comparison) -> str:
    names = (first, second)
    undecided = f"; undecided at {_listed(comparison.undecided)}" if comparison.undecided else ""
    crossings = comparison.crossings
    if crossings:
        start = crossings[0]
        changes = "".join(
            f", {names[1 - one.cheaper_before]} from {one.before} B on" for one in crossings
        )
        return (
            f"{first} / {second}: {names[start.cheaper_before]} up to {start.after} B"
            f"{changes}{undecided}."
        )
    for name, sizes in zip(names, (comparison.first, comparison.second), strict=True):
        if sizes:
            span = f"{sizes[0]} to {sizes[-1]} B" if len(sizes) > 1 else f"{sizes[0]} B"
            return f"{first} / {second}: {name} from {span}, no crossing{undecided}."
    return f"{first} / {second}: no size at which they could be told apart."


def _listed(sizes: Sequence[int]) -> str:
    return ", ".join(str(size) for size in sizes) + " B"


# --- BPF programs


def _in_bpf(results: Results, notes: Sequence[str]) -> Table:
    places = [place for place in PLACES if any(in_place(results, place, s) for s in _sizes())]
    rows = []
    loop = _loop(results)
    call = results.find(CALL, {}, baseline=LOOP)
    for title, result in (("loop alone", loop), ("function call", call)):
        if result:
            rows.append(Row((title, Figure.of(result), *[None] * (len(places) - 1))))
    for size in PLACES["map"]:
        cells: list[Cell] = [size]
        for place in places:
            found = in_place(results, place, size)
            cells.append(Figure.of(found) if found else None)
        first = in_place(results, places[0], size)
        note = first.note if first and not first.estimate else ""
        rows.append(Row(tuple(cells), note=note, begins_section=size == PLACES["map"][0]))
    return Table(
        "memset of a constant size in BPF, net of the loop",
        (Column("size", "B"), *(Column(place, "ns") for place in places)),
        rows,
        (*notes, *_reading_bpf(results)),
    )


def in_place(results: Results, place: str, size: int) -> Result | None:
    """What clearing so many bytes in that place costs over the loop, or None."""
    return results.find("constant", {"size_bytes": size, "place": place}, baseline=LOOP)


def _reading_bpf(results: Results) -> Iterator[str]:
    yield (
        "Stores of eight bytes and what remains, where a program may write: a map's value, the "
        "packet and its metadata (whose bounds are checked each turn), the stack. From 512 B on "
        "they are in a function that is called, whose call is in the figure."
    )
    yield "loop alone: what the others are net of. function call: a BPF-to-BPF call, net as well."
    twin = next((r for r in results.all() if r.variant == TWIN), None)
    if twin and twin.estimate:
        yield f"In the same run: map, 256 B, against itself {twin.estimate.point:+.3f} ns."
