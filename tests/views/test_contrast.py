"""Every colour of a report's text against every ground on which text stands, by WCAG 2.2."""

from __future__ import annotations

import re

import pytest

from xdplab.views.page import style_sheet

LEAST = 4.5
"""Success criterion 1.4.3, for text of any size."""

GROUNDS = ("ground", "soft")


def _palettes() -> dict[str, dict[str, str]]:
    """The sheet's colours by name, as they are in each setting; what one leaves out it inherits."""
    blocks = [
        dict(re.findall(r"--([\w-]+):\s*(#[0-9a-f]{6})", block))
        for block in re.findall(r":root\s*\{([^}]*)\}", style_sheet())
    ]
    light, *others = blocks
    assert len(others) == 2, "the sheet has a light, a dark and a printed palette"
    dark, printed = ({**light, **other} for other in others)
    return {"light": light, "dark": dark, "printed": printed}


def _text_colours() -> set[str]:
    """The names of colours in which the sheet sets text, on the page and in plots."""
    rules = re.sub(r":root\s*\{[^}]*\}", "", style_sheet())
    found = set(re.findall(r"(?<![\w-])color:\s*var\(--([\w-]+)\)", rules))
    return found | set(re.findall(r"text\s*\{[^}]*?fill:\s*var\(--([\w-]+)\)", rules))


def _luminance(colour: str) -> float:
    """Relative luminance as WCAG 2.2 defines it, 0 for black to 1 for white."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    """1 for the same colour, 21 for black on white."""
    lighter, darker = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def test_contrast_is_as_defined() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("setting", ["light", "dark", "printed"])
def test_text_can_be_read_in_every_setting(setting: str) -> None:
    palette = _palettes()[setting]
    colours = _text_colours()
    assert {"text", "muted", "c0"} <= colours
    found = {
        (colour, ground): contrast(palette[colour], palette[ground])
        for colour in colours
        for ground in GROUNDS
    }
    assert not {pair: ratio for pair, ratio in found.items() if ratio < LEAST}


@pytest.mark.parametrize("setting", ["light", "dark", "printed"])
def test_bars_stand_out_from_their_ground(setting: str) -> None:
    # Success criterion 1.4.11: what is no text, and is needed to understand, has 3:1.
    palette = _palettes()[setting]
    bars = [palette[f"c{number}"] for number in range(8)]
    assert min(contrast(bar, palette["ground"]) for bar in bars) >= 3
