"""
An article small enough to be written in a test, and good enough for every gate: what its model
says, and faults to put into it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mulligan.workflows.article.steps import put_together

SOURCES: list[dict[str, Any]] = [
    {"id": "a", "authors": ["Ash, B."], "year": 2021, "title": "On tea", "url": "https://a.test/t"},
    {"id": "b", "authors": ["Birch, C.", "Cole, D."], "year": 2019, "title": "Leaves and water"},
    {"id": "c", "authors": ["Dorn, E.", "Elm, F.", "Fir, G."], "year": 2020, "title": "Two teas"},
]
LEAVES = """\
## Leaves

All true tea comes from one plant, and what happens to its leaves within 24 hours of the picking \
decides whether a cup turns out green or black (Ash, 2021). Growers steam some of them at once, \
which keeps the colour, and let others lie until the air has browned them.

Pickers start before dawn. The basket fills slowly, since a good hand takes only the bud and two \
young leaves.
"""
WATER = """\
## Water

Water that has just stopped boiling, at about 80 degrees, draws the taste out of a green leaf \
without its bitter parts, as tastings in 3 towns have shown (Birch & Cole, 2019). Black leaves \
bear more heat, so cooks pour at the boil and wait 4 minutes instead (Dorn et al., 2020).

Hard water dulls both. A filter helps, and so does a kettle that somebody cleans now and then.
"""
GOOD = {"Leaves": LEAVES, "Water": WATER}
TITLE, OTHER_TITLE = "Why tea tastes as it does", "Tea, leaf by leaf"
BRIEF: dict[str, Any] = {"topic": TITLE, "target_words": 145, "sources": SOURCES}
OUTLINE: dict[str, Any] = {
    "sections": [
        {"heading": "Leaves", "purpose": "how a tea is made", "words": 68},
        {"heading": "Water", "purpose": "how it is brewed", "words": 69},
    ]
}
APPROVED: dict[str, Any] = {
    "score": 90,
    "verdict": "approved",
    "strengths": [],
    "weaknesses": [],
    "would_change": [],
    "veto_reasons": [],
}
PLAIN = "Hard water dulls both."
STOCK = "Hard water is a game-changer for both."
"""A sentence of WATER, and the same said with a stock phrase."""


def faulty(heading: str, old: str, new: str) -> dict[str, str]:
    """The good sections, one of them with other words in it."""
    assert old in GOOD[heading]
    return {**GOOD, heading: GOOD[heading].replace(old, new)}


def article(sections: Mapping[str, str] = GOOD, title: str = TITLE) -> str:
    """The whole article, as its workflow puts it together."""
    return put_together(title, list(sections.values()), SOURCES)


def stock_report(draft: str) -> dict[str, Any]:
    """A report on a draft with STOCK in it: it names the words, and not what else to write."""
    line = next(at for at, text in enumerate(draft.split("\n"), start=1) if STOCK in text)
    gate = {"score": 50, "metric": 1, "direction": "lower", "threshold": 0, "passed": False}
    fix = {"gate": "banned", "kind": "banned", "instruction": "say it plainly", "section": "Water"}
    return {
        "overall_passed": False,
        "overall_score": 50,
        "gates": {"banned": gate},
        "repairs": [fix | {"line": line, "before": "is a game-changer for both"}],
    }


def planned(sections: Mapping[str, str] = GOOD) -> dict[str, dict[str, Any]]:
    """What the planning and checking nodes say, by node, for an article of these sections."""
    return {
        "research": {"findings": [{"claim": "tea is a plant", "source": "a"}]},
        "angle": {
            "title": TITLE,
            "angle": "from leaf to cup",
            "alternative_titles_considered": [OTHER_TITLE],
        },
        "outline": {"sections": [one for one in OUTLINE["sections"] if one["heading"] in sections]},
        "checked": {"unsupported": []},
    }


def script(sections: Mapping[str, str], *repairing: dict[str, Any]) -> list[dict[str, Any]]:
    """
    A scripted model's turns: these sections as they are written at first, then the turns of those
    who repair. Who is left over says APPROVED, as a reviewer.
    """
    said = planned(sections) | {
        f"section[{n}]": {"text": text} for n, text in enumerate(sections.values())
    }
    making = [
        {"match": {"node": node}, "times": "always", "json": answer}
        for node, answer in said.items()
    ]
    return [*making, *repairing, {"times": "always", "json": APPROVED}]


def says(
    invocation: str, answer: dict[str, Any], *, cost_usd: float | None = None
) -> dict[str, Any]:
    """The turn of an agent that answers at once; without a cost, none is reported."""
    usage: dict[str, Any] = {"prompt_tokens": 90, "completion_tokens": 9, "total_tokens": 99}
    if cost_usd is not None:
        usage["cost"] = cost_usd
    return {
        "match": {"invocation": invocation},
        "times": "always",
        "json": answer,
        "usage": usage,
    }


def edits(invocation: str, *made: dict[str, Any]) -> list[dict[str, Any]]:
    """The turns of an editor that makes these edits, and then is done."""
    calls = [{"name": "edit", "arguments": one} for one in made]
    match = {"invocation": invocation}
    return [
        {"match": match | {"rounds": 0}, "times": "always", "tool_calls": calls},
        {"match": match | {"rounds": 1}, "times": "always", "json": {"summary": "done"}},
    ]
