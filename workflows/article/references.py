"""A draft's list of references: the sources of its brief that it cites, and no other change."""

from __future__ import annotations

from collections.abc import Sequence

from mulligan.quality.rework import Action
from mulligan.workflows.article.citations import Source, cited_in, reference
from mulligan.workflows.article.edits import replace_sections, sections_of
from mulligan.workflows.article.gates.document import Document
from mulligan.workflows.article.gates.sources import REFERENCES
from mulligan.workflows.article.judging import RULES

HEADING = "References"


def listed(
    draft: str, sources: Sequence[Source], *, drop: bool = False
) -> tuple[str, tuple[Action, ...]]:
    """
    The draft with every source that it cites in its list, and what was done to the list. With
    `drop`, sources that it does not cite leave it. Entries of no source that is known stay.
    """
    name = _list_of(draft)
    parts = sections_of(draft, RULES)
    old = parts.pop(name) if name is not None else ""
    body = "".join(parts.values())
    cited = [source for source in sources if cited_in(source, body)]
    others = [source for source in sources if source not in cited]
    heading, entries = _read(old)
    kept = [one for one in entries if not (drop and _is_any(one, others))]
    missing = [reference(one) for one in cited if not any(_is(entry, one) for entry in entries)]
    if kept == entries and not missing:
        return draft, ()
    new = "\n\n".join([heading, *_in_order(kept, missing)])
    done = Action(type="references", section=name or HEADING, before=old.strip() or None, after=new)
    if name is not None:
        return replace_sections(draft, {name: new}, RULES), (done,)
    return f"{draft.rstrip()}\n\n{new}\n", (done,)


def _list_of(draft: str) -> str | None:
    sections = Document(draft, RULES.structure).sections
    return next((one.name for one in sections if one.role == REFERENCES), None)


def _read(section: str) -> tuple[str, list[str]]:
    """The section's heading, and its paragraphs."""
    heading, _, rest = section.strip().partition("\n")
    return heading or f"## {HEADING}", [one for one in rest.strip().split("\n\n") if one.strip()]


def _in_order(kept: list[str], missing: list[str]) -> list[str]:
    """By their first words, if that is how they stood."""
    entries = [*kept, *missing]
    return sorted(entries, key=str.casefold) if kept == sorted(kept, key=str.casefold) else entries


def _is(entry: str, source: Source) -> bool:
    return str(source.get("title") or source["id"]).casefold() in entry.casefold()


def _is_any(entry: str, sources: Sequence[Source]) -> bool:
    return any(_is(entry, one) for one in sources)
