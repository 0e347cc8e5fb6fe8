"""Reports: what stands on the page, escaped, whatever a document holds, and how large it is."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from tests.store.made import document, result, trial
from xdplab.comparison import Side, compare
from xdplab.records import WITHIN_NOISE, Document, Estimate, Warning
from xdplab.store.history import Past
from xdplab.views.html_building import LARGEST_BYTES, Page
from xdplab.views.html_comparison import columns_page, comparison_page
from xdplab.views.html_run import run_page

BAD = '<script>alert(1)</script> & "q" \' \u202eevil\u202c \u05d0\u05d1 \ud800'


class _Read(HTMLParser):
    """Tags, texts and attributes of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.texts: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(self.texts)


def read(page: Page) -> _Read:
    return _Read(page.text)


def test_a_run_has_its_figures_warnings_environment_and_method() -> None:
    one = document(results=[result(ns=3.25), result("b", 4.5)], tags=["before"], note="quiet")
    text = read(run_page(one, ())).text
    for part in ("3.250", "before", "quiet", "it is loaded", "stop it", "some", "6.18"):
        assert part in text
    assert "operation: the operation is repeated" in text


def test_nothing_is_fetched_and_nothing_runs() -> None:
    found = read(run_page(document(), ()))
    assert not {"script", "img", "iframe", "object"} & set(found.tags)
    places = [value or "" for name, value in found.attributes if name in {"src", "href"}]
    assert places
    assert all(place.startswith(("#", "data:")) for place in places)
    assert not [name for name, _ in found.attributes if name.startswith("on")]


def test_words_of_a_document_are_never_markup() -> None:
    one = document(results=[replace(result(), variant=BAD, suite=BAD, note=BAD)], note=BAD)
    one = replace(
        one,
        environment={"cpu": {"model": BAD}, BAD: BAD},
        warnings=(Warning(BAD, BAD, BAD),),
        run=replace(one.run, id=BAD, command=(BAD,)),
    )
    page = run_page(one, [[Past(BAD, BAD, Estimate(1, 1, 1, 0.95, 3), True)] * 2])
    found = read(page)
    assert "script" not in found.tags
    assert "<script>alert(1)</script>" in found.text
    assert "\u202e" not in page.text
    page.text.encode()
    compared = comparison_page(compare(Side(BAD, [one]), Side("b", [one])))
    assert "script" not in read(compared).tags


def test_every_plot_has_words_for_who_does_not_see_it() -> None:
    found = read(run_page(document(results=[result(), result("b", 7.0)]), ()))
    assert found.tags.count("svg") >= 1
    assert found.tags.count("svg") == found.tags.count("desc")
    labels = [value for name, value in found.attributes if name == "aria-label" and value]
    assert any("3.00" in label and "7.00" in label for label in labels)


def _huge() -> Iterator[Document]:
    trials = tuple(trial(3000 + number % 97) for number in range(40))
    many = [replace(result(f"v{number}", number), trials=trials) for number in range(1, 4000)]
    yield document(results=many)
    yield document(results=[replace(result("x" * 50_000), note="y" * 50_000)] * 300)
    yield replace(
        document(), warnings=tuple(Warning("c", "m" * 3000, "r" * 3000) for _ in range(5000))
    )


@pytest.mark.parametrize("number", range(3))
def test_a_huge_run_still_fits_and_says_what_it_leaves_out(number: int) -> None:
    one = list(_huge())[number]
    page = run_page(one, ())
    assert len(page.text.encode()) < LARGEST_BYTES
    assert ("rows; xdplab export" in page.text, " ..." in page.text)[number > 0]


def test_samples_are_thinned_evenly_and_strays_counted() -> None:
    trials = (*(trial(3000 + number) for number in range(1000)), trial(900_000))
    page = run_page(document(results=[replace(result(), trials=trials)]), ())
    (plot,) = [plot for plot in page.plots if plot.title.startswith("single loads")]
    dots = [one for one in plot.svg.iter("circle") if "dot" in (one.get("class") or "")]
    assert 100 < len(dots) <= 1001
    assert "1001 loads" in page.text
    assert "beyond" in page.text


def test_history_shows_runs_that_are_there_and_marks_unlike_ones() -> None:
    def past(day: int, ns: float, is_like: bool) -> Past:
        estimate = Estimate(ns, ns - 0.1, ns + 0.1, 0.95, 9)
        return Past("r", f"2026-01-0{day}T00:00:00+00:00", estimate, is_like)

    page = run_page(document(), [[past(1, 2.0, False), past(2, 3.0, True)]])
    (plot,) = [plot for plot in page.plots if plot.name.startswith("history")]
    looks = [one.get("class") for one in plot.svg.iter("circle")]
    assert looks == ["hollow", "f0"]
    assert "2026-01-01 00:00" in page.text
    assert not [plot for plot in run_page(document(), [[]]).plots if "history" in plot.name]


def test_two_runs_show_what_moved_and_how_sure_that_is() -> None:
    old = document(results=[result(ns=3.0), result("b", 5.0)])
    new = document("20260101T000001-abcdef", results=[result(ns=4.0), result("b", 5.0)])
    page = comparison_page(compare(Side("old", [old]), Side("new", [new])))
    text = read(page).text
    assert "Of 2 figures 1 are worse, 0 better" in text
    assert "(+33.3 %) worse" in text
    assert WITHIN_NOISE in text
    (plot,) = page.plots
    looks = [one.get("class") for one in plot.svg.iter("circle")]
    assert looks == ["f1", "hollow"]


def test_unlike_environments_are_named_and_not_judged() -> None:
    new = replace(document(), environment={"cpu": {"model": "another"}})
    text = read(comparison_page(compare(Side("old", [document()]), Side("new", [new])))).text
    assert "No verdicts" in text
    assert "another" in text
    assert "worse" not in text


def test_several_runs_stand_side_by_side() -> None:
    sides = [Side(f"s{ns}", [document(results=[result(ns=ns)])]) for ns in (1, 2, 3)]
    text = read(columns_page(sides)).text
    for figure in ("1.000", "2.000", "3.000"):
        assert figure in text


def test_a_run_without_intervals_results_or_environment_has_a_report() -> None:
    bare = replace(result(), estimate=Estimate(3.0, -math.inf, math.inf, 0.95, 2), trials=())
    assert "too few loads" in run_page(document(results=[bare]), ()).text
    assert "How it was measured" in run_page(document(results=[]), ()).text
    compiled = replace(document(), environment={"compiler": "clang 22"})
    assert "clang 22" in run_page(compiled, ()).text
    assert "unknown model" not in run_page(compiled, ()).text
    assert "none is named" in run_page(replace(document(), environment={}), ()).text


def test_a_plot_taller_than_paper_is_printed_smaller_and_a_small_one_as_it_is() -> None:
    def printed(rows: int) -> list[str]:
        page = run_page(document(results=[result(f"v{n}", n) for n in range(1, rows)]), ())
        found = [plot.svg.get("style") for plot in page.plots]
        return [style for style in found if style]

    assert not printed(4)
    assert all(style.startswith("--printed: 0.") for style in printed(60))
    assert printed(60)
