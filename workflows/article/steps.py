"""The article's function nodes: reading the brief, putting parts together, publishing to a file."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mulligan.errors import InvalidInput
from mulligan.settings import load_settings
from mulligan.workflows.article.citations import (
    Citation,
    Citations,
    cited_in,
    in_text,
    reference,
    reference_list,
)
from mulligan.workflows.article.front_matter import split

TARGET_WORDS = 1_200


def brief(input: Any) -> dict[str, Any]:  # noqa: A002 - the workflow's name for it
    """
    The brief as the other nodes read it: topic, audience, target_words, keyword, sources, and how
    each source is cited. Raises InvalidInput where there is no topic, or a source has no id.
    """
    given = _from_text(input) if isinstance(input, str) else dict(input or {})
    topic = str(given.get("topic") or "").strip()
    if not topic:
        raise InvalidInput("the brief has no topic: say it below the front matter, or as `topic`")
    sources = list(given.get("sources") or [])
    for number, source in enumerate(sources, start=1):
        if not isinstance(source, dict) or not source.get("id"):
            raise InvalidInput(f"sources[{number - 1}] of the brief has no id")
    return {
        "topic": topic,
        "audience": given.get("audience") or "readers who know nothing of it",
        "target_words": given.get("target_words") or TARGET_WORDS,
        "keyword": given.get("keyword"),
        "sources": sources,
        "citations": {source["id"]: in_text(source) for source in sources},
    }


def _from_text(text: str) -> dict[str, Any]:
    front, body = split(text)
    return {"topic": body.strip(), **front}


def assemble(
    brief: dict[str, Any],
    angle: dict[str, Any],
    outline: dict[str, Any],
    section: list[dict[str, Any]],
) -> str:
    """The article: title, sections under their headings, and the references that they cite."""
    texts = [
        with_heading(planned["heading"], written["text"])
        for planned, written in zip(outline["sections"], section, strict=True)
    ]
    return put_together(angle["title"], texts, brief["sources"])


def with_heading(heading: str, text: str) -> str:
    """A section with this heading and no other of its rank, whatever the writer made of it."""
    body, line = text.strip(), " ".join(heading.split())
    first, _, rest = body.partition("\n")
    if first.startswith("#"):
        body = rest.strip()
    return "\n".join([line if line.startswith("#") else f"## {line}", "", *_demoted(body)])


def _demoted(body: str) -> Iterator[str]:
    """Its lines, headings of a section's rank one lower; code stays as it is."""
    fenced = False
    for line in body.split("\n"):
        fenced ^= line.lstrip().startswith(("```", "~~~"))
        yield f"#{line}" if line.startswith("## ") and not fenced else line


def put_together(title: str, texts: list[str], sources: list[dict[str, Any]]) -> str:
    """A title, sections, and the references of the sources that these cite."""
    body = "\n\n".join(text.strip() for text in texts)
    parts = [f"# {title}", body]
    cited = [source for source in sources if cited_in(source, body)]
    if cited:
        parts.append(f"## References\n\n{reference_list(cited)}")
    return "\n\n".join(parts) + "\n"


def without_unsupported(assembled: str, checked: dict[str, Any]) -> str:
    """The article without the sentences that nothing supports; it never gets an invented source."""
    return without(assembled, checked["unsupported"])


def without(text: str, sentences: list[str]) -> str:
    """The text without these sentences, where they stand exactly so, and without headings' loss."""
    for sentence in sentences:
        words = sentence.strip()
        if not words or words.startswith("#"):
            continue
        for spelled in (f" {words}", f"{words} ", words):
            if spelled in text:
                text = text.replace(spelled, "", 1)
                break
    return text


def citations(brief: dict[str, Any], checked: dict[str, Any], cited: str) -> Citations:
    """What the article cites, and what was taken out of it since no source says so."""
    return Citations(
        citations=tuple(
            Citation(
                source=str(source["id"]),
                in_text=in_text(source),
                reference=reference(source),
                cited=cited_in(source, cited),
            )
            for source in brief["sources"]
        ),
        removed=tuple(checked["unsupported"]),
    )


def publish(repair: dict[str, Any], idempotency_key: str) -> dict[str, Any]:
    """Write the article to a file of this machine; the same run writes the same file again."""
    run = idempotency_key.partition(":")[0]
    folder = load_settings().data_dir.resolve() / "runs" / run / "published"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "article.md"
    _replace(path, repair["draft"])
    return {"path": str(path), "outcome": repair["outcome"], "score": repair["score"]}


def _replace(path: Path, text: str) -> None:
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".article.")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(temporary, path)
