"""The README's table of folders."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_every_folder_is_told_of() -> None:
    told = set(re.findall(r"^\| `(\w+)/`", README, re.MULTILINE))
    there = {path.parent.name for path in ROOT.glob("*/__init__.py")} | {"tests"}

    assert there - told == set()
