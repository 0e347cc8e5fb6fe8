"""docs/topologies.md: its example prints what the page says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "topologies.md"


@pytest.mark.needs_kernel
def test_the_example_prints_what_the_page_says(tmp_path: Path) -> None:
    text = PAGE.read_text()
    (example,) = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    (promised,) = re.findall(r"It prints\n\n((?:    .*\n)+)", text)
    script = tmp_path / "example.py"
    script.write_text(example)
    result = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, check=False, timeout=60
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.split("\n") == [line[4:] for line in promised.split("\n")]
