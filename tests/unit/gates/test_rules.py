"""A user's rules over the shipped ones: what they change, and how wrong ones are told."""

from __future__ import annotations

import pytest

from mulligan.errors import InvalidInput
from mulligan.workflows.article.gates.judge import GATES, report_on
from mulligan.workflows.article.gates.rules import rules_from


def test_a_user_adds_phrases_removes_others_and_sets_numbers() -> None:
    rules = rules_from(
        b"""
only: [banned, slop]
banned:
  add: [{find: "best practice|practices", use: "habit|habits"}]
  remove: [delve-into]
gates: {slop: {threshold: 5}, banned: {weight: 0}}
structure: {references: [Quellen]}
""",
        "my.yaml",
    )
    report = report_on("We delve into best practices. It's worth noting that mud dries.", rules)

    assert [(hit.rule, hit.after) for hit in report.hits if hit.gate == "banned"] == [
        ("banned.best-practice", "habits")
    ]
    assert ["banned", "slop"] == list(report.gates)
    assert report.gates["slop"].threshold == 5
    assert report.overall_score == pytest.approx(report.gates["slop"].score, abs=0.01)
    assert "quellen" in rules.structure["references"]


def test_an_empty_file_changes_nothing() -> None:
    assert rules_from(b"", "my.yaml") == rules_from()


def test_the_article_profile_asks_every_gate() -> None:
    assert set(rules_from(b"profile: article", "my.yaml").names) == set(GATES)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("profil: article", "my.yaml:1: profil: unknown key (did you mean 'profile'?)"),
        ("\nprofile: blog", "my.yaml:2: profile: "),
        (
            "brief:\n  target: 5",
            "my.yaml:2: brief.target: unknown key (did you mean 'target_words'?)",
        ),
        (
            "brief: {format: lists}",
            "my.yaml:1: brief.format: no format 'lists' (did you mean 'list'?)",
        ),
        ("brief: {section_words: {A: 0}}", "my.yaml:1: brief.section_words.A: "),
        ("only: [slop,\n bannd]", "my.yaml:2: only[1]: no gate 'bannd' (did you mean 'banned'?)"),
        ("only: []", "my.yaml:1: only: names no gate"),
        ("gates: {slopp: {threshold: 1}}", "no gate 'slopp' (did you mean 'slop'?)"),
        ("gates:\n  slop:\n    limit: 1", "my.yaml:3: gates.slop.limit: unknown key"),
        ("gates: {banned: {half: 0}}", "my.yaml:1: gates.banned.half: "),
        (
            "gates: {banned: {weight: 0}}\nonly: [banned]",
            "my.yaml:1: gates: no gate that is asked has a weight above 0",
        ),
        ("banned:\n  remove: [delve]", "my.yaml:2: banned.remove[0]: no entry 'delve'"),
        ("banned:\n  add:\n    - {find: '* a'}", "my.yaml:3: banned.add[0].find: "),
        ("banned: {add: [{phrase: x}]}", "banned.add[0].phrase: unknown key"),
        ("a: [", "my.yaml:1: not YAML"),
        ("- 1", "my.yaml:1: "),
    ],
)
def test_what_is_wrong_is_told_with_its_line(text: str, told: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        rules_from(text.encode(), "my.yaml")

    assert told in str(raised.value)
