"""
docs/log.md names a test for each of the log's rules.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_test_that_the_rules_name_is_there() -> None:
    named = set(re.findall(r"`(test_\w+)`", (ROOT / "docs/log.md").read_text()))
    written = {
        name
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", path.read_text(), re.MULTILINE)
    }

    assert len(named) > 30
    assert set() == named - written
