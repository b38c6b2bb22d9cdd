"""
The demo's tool and its function nodes: plain functions, as a user's own would be.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mulligan import tool

FACTS = ["Tea was drunk in China before it came to Europe.", "Tea is made of coffee beans."]


@tool(effect="write")
def search(query: str, record: str) -> list[str]:
    """
    Find facts. Each call is written down in the file `record`, so that anyone can count them.
    """
    with Path(record).open("a", encoding="utf-8") as calls:
        calls.write(f"search {query}\n")
    return FACTS


def ask_for_more(check: list[dict[str, Any]]) -> str:
    """What to do when there is too little: the condition of its node keeps it from running here."""
    return f"only {len(check)} facts; search again"


def brief(input: dict[str, Any], check: list[dict[str, Any]]) -> dict[str, Any]:  # noqa: A002 - the name that nodes know it by
    """Join what was checked."""
    return {
        "topic": input["topic"],
        "facts": [one["fact"] for one in check if one["holds"]],
        "doubtful": [one["fact"] for one in check if not one["holds"]],
    }
