"""APA 7: how a source is cited in the text, and how it stands in the list of references."""

from __future__ import annotations

from typing import Any

import msgspec

Source = dict[str, Any]
"""{id, authors: ["Family, G."], year, title, publisher?, url?, text?}"""


class Citation(msgspec.Struct, frozen=True, kw_only=True):
    """A source of the brief: how it is cited and listed, and whether the draft cites it."""

    source: str
    in_text: str
    reference: str
    cited: bool


class Citations(msgspec.Struct, frozen=True, kw_only=True):
    """`citations.json`: the brief's sources, and the sentences that went for want of one."""

    citations: tuple[Citation, ...]
    removed: tuple[str, ...]


def in_text(source: Source) -> str:
    """`(Ash & Birch, 2021)`; of three or more `(Ash et al., 2021)`; of none by its title."""
    return f"({_names(source)}, {_year(source)})"


def cited_in(source: Source, text: str) -> bool:
    """Whether a text cites a source: `(…; Ash & Birch, 2021)` or `Ash and Birch (2021)`."""
    names, year = _names(source), _year(source)
    spelled = (f"{names}, {year}", f"{names} ({year})", f"{names.replace(' & ', ' and ')} ({year})")
    return any(one in text for one in spelled)


def _names(source: Source) -> str:
    families = [author.partition(",")[0].strip() for author in _authors(source)]
    match families:
        case []:
            return f"“{source.get('title') or source['id']}”"
        case [one]:
            return one
        case [one, other]:
            return f"{one} & {other}"
        case _:
            return f"{families[0]} et al."


def reference_list(sources: list[Source]) -> str:
    """The references in the order of their first words, a paragraph each."""
    return "\n\n".join(sorted((reference(source) for source in sources), key=str.casefold))


def reference(source: Source) -> str:
    """`Ash, B., & Birch, C. (2021). *Title*. Publisher. https://…`, as far as it is known."""
    authors = _authors(source)
    title = f"*{source.get('title') or source['id']}*"
    if not authors:
        lead = [f"{title} ({_year(source)})."]
    else:
        joined = authors[0] if len(authors) == 1 else f"{', '.join(authors[:-1])}, & {authors[-1]}"
        lead = [f"{joined} ({_year(source)}).", f"{title}."]
    publisher = source.get("publisher")
    rest = [f"{publisher}."] if publisher else []
    return " ".join([*lead, *rest, *([str(source["url"])] if source.get("url") else [])])


def _authors(source: Source) -> list[str]:
    given = source.get("authors") or []
    return [given] if isinstance(given, str) else list(given)


def _year(source: Source) -> str:
    return str(source.get("year") or "n.d.")
