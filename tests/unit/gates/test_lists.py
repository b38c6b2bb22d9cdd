"""ART-4: each entry of the shipped lists finds what it says, and what it offers passes itself."""

from __future__ import annotations

import itertools

import pytest

from mulligan.quality.report import Fix
from mulligan.workflows.article.edits import apply_edits
from mulligan.workflows.article.gates.judge import Report, report_on
from mulligan.workflows.article.gates.phrases import Phrase, phrase_of
from mulligan.workflows.article.gates.rules import Config, rules_of

WORDING = rules_of(Config(only=("slop", "banned", "em_dash")))
LISTED = [("banned", one) for one in WORDING.banned] + [("slop", one) for one in WORDING.slop]


def spellings(phrase: Phrase) -> list[str]:
    """The phrase in each of its forms, `*` as a word or two."""
    forms = itertools.product(*(word or ("modern", "very modern") for word in phrase.words))
    return [" ".join(form) + phrase.mark for form in forms]


def sentence(phrase: Phrase, words: str) -> str:
    start = words[:1].upper() + words[1:]
    return f"{start} rivers flow." if phrase.starts else f"Then {words} rivers flow."


def wording(text: str) -> Report:
    return report_on(text, WORDING)


@pytest.mark.parametrize(("gate", "phrase"), LISTED, ids=lambda one: getattr(one, "id", one))
def test_an_entry_finds_each_of_its_forms_and_offers_what_passes(gate: str, phrase: Phrase) -> None:
    for words in spellings(phrase):
        text = sentence(phrase, words)
        report = wording(text)
        (hit,) = [hit for hit in report.hits if hit.rule == f"{gate}.{phrase.id}"]
        assert (hit.line, hit.column) == (1, 1 if phrase.starts else 6)
        assert wording(hit.suggestion).hits == (), hit.suggestion
        if phrase.use is not None:
            assert hit.before is not None
            fix = Fix(
                gate=gate, kind="", instruction="", line=1, before=hit.before, after=hit.after
            )
            draft, _ = apply_edits(text, [fix], WORDING)
            assert wording(draft).hits == (), draft


def test_entries_have_names_of_their_own() -> None:
    for listed in (WORDING.banned, WORDING.slop):
        names = [phrase.id for phrase in listed]
        assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    "text",
    [
        "Robust code is crucial in this landscape, and we leverage cutting-edge realms.",
        "We delve. Into it go the roots.",
        "The river unlocks, the power of it is great.",
        "In conclusion the court found for him.",
        "`delve into` and <b title='delve into'>this</b>, ![delve into](x.png)",
        "> We delve into it, she wrote.",
        "    delve into\n\n```\ndelve into\n```\n",
        "[text](http://delve.into/delve-into 'delve into') and <http://a.b/delve-into>",
        "https://a.b/in-the-realm-of",
        "<div>\ndelve into\n</div>",
        "[a]: http://a.b 'delve into'\n",
    ],
)
def test_words_alone_code_addresses_and_quotations_are_not_flagged(text: str) -> None:
    assert wording(text).hits == ()


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("They DELVE INTO it.", "LOOK INTO"),
        ("Delving into it helps.", "Looking into"),
        ("It’s worth noting that mud dries.", "M"),
        ("Mud, it is worth noting that it dries.", ""),
        ("See an ever-evolving bed.", "a changing"),
    ],
)
def test_a_replacement_fits_its_place(text: str, after: str) -> None:
    (hit,) = wording(text).hits

    assert (hit.after or "").strip() in (after, f"{after} it", f", {after}") or after in hit.after


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ({"find": " "}, "has no words"),
        ({"find": "a||b"}, "empty alternative"),
        ({"find": "* b"}, "not first"),
        ({"find": "a * b", "use": "c"}, "not where `use`"),
        ({"find": "a|b c", "use": "x|y|z c"}, "as many alternatives"),
    ],
)
def test_an_entry_that_can_not_work_is_refused(written: dict[str, str], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        phrase_of(**written)
