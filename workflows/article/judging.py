"""How an article's drafts are judged: the gates of an article, by its brief and outline."""

from __future__ import annotations

from typing import Any

from mulligan.quality.report import Quality
from mulligan.workflows.article.gates.document import Document
from mulligan.workflows.article.gates.judge import report_on
from mulligan.workflows.article.gates.rules import Brief, Config, Rules, rules_of
from mulligan.workflows.article.gates.wording import banned, em_dash

RULES = rules_of(Config(profile="article"))
"""What every article is held to, whatever was asked for."""


def judge(
    draft: str, brief: dict[str, Any] | None = None, outline: dict[str, Any] | None = None
) -> Quality:
    """The report on a draft; where a brief or an outline gives numbers, these count too."""
    return report_on(draft, rules_for(brief or {}, outline or {})).quality


def rules_for(brief: dict[str, Any], outline: dict[str, Any]) -> Rules:
    """The rules of one article."""
    asked = Brief(
        target_words=brief.get("target_words"),
        section_words={one["heading"]: one["words"] for one in outline.get("sections", ())},
        keyword=brief.get("keyword") or None,
        format=brief.get("format") or None,
    )
    return rules_of(Config(profile="article", brief=asked))


def faults_of(words: str) -> list[str]:
    """What the gates on wording say of words that shall be put into a draft."""
    document = Document(words, RULES.structure)
    return [hit.message for gate in (banned, em_dash) for hit in gate(document, RULES).hits]
