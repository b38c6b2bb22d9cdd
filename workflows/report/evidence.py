"""Evidence: what was found in the materials, each piece with words that stand there."""

from __future__ import annotations

from typing import Any

MOST_QUOTED = 200
"""Characters shown of words that stand nowhere."""


def evidence(request: dict[str, Any], collected: list[dict[str, Any]]) -> dict[str, Any]:
    """
    What was collected, as far as its words stand in its material: entries `e1`, `e2`, … in the
    order of the materials. `refused` are those whose words do not.
    """
    entries: list[dict[str, Any]] = []
    refused: list[dict[str, Any]] = []
    for material, found in zip(request["materials"], collected, strict=True):
        for one in found["entries"]:
            if stands_in(one["quote"], material["text"]):
                number = f"e{len(entries) + 1}"
                entries.append({"id": number, "material": material["id"], **_kept(one)})
            else:
                refused.append({"material": material["id"], "quote": one["quote"][:MOST_QUOTED]})
    return {"entries": entries, "refused": refused}


def stands_in(words: str, text: str) -> bool:
    """Whether words stand in a text, letter by letter, however lines are broken."""
    wanted = " ".join(words.split())
    return bool(wanted) and wanted in " ".join(text.split())


def _kept(found: dict[str, Any]) -> dict[str, Any]:
    return {"quote": " ".join(found["quote"].split()), "author": found["author"]}
