"""
What a repaired value says that the candidate did not (OUT-6).
"""

from __future__ import annotations

from typing import Any

import pytest

from mulligan.completion.novel import novel_paths

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "days": {"type": "integer", "default": 7},
        "state": {"enum": ["open", "closed"]},
        "kind": {"const": "trip"},
        "rows": {"type": "array"},
    },
}
CANDIDATE = '{"city": "Z\\u00fcrich \\"West", days: 3, "rows": [1.50, {"x": "a'


@pytest.mark.parametrize(
    "value",
    [
        {"city": 'Zürich "West'},
        {"days": 3},
        {"days": 7},
        {"state": "open", "kind": "trip"},
        {"rows": [1.5, {"x": "a"}], "flag": True, "none": None},
    ],
)
def test_what_the_candidate_or_the_schema_says_is_not_novel(value: dict[str, Any]) -> None:
    assert () == novel_paths(value, CANDIDATE, SCHEMA)


def test_paths_of_what_is_new_are_told_without_the_value() -> None:
    value = {"city": "Bern", "days": 30, "rows": [1.5, {"x": "Basel"}], "hidden": 2}

    assert ("/*", "/city", "/days", "/rows/1/*") == novel_paths(value, CANDIDATE, SCHEMA)
