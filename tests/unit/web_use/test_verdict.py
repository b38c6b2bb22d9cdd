"""What is made of an act (web9): no success without evidence, no repetition of what may be done."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mulligan.tools.web_use.bridge.look import Look
from mulligan.tools.web_use.bridge.redaction import Redaction
from mulligan.tools.web_use.bridge.shown import Shown
from mulligan.tools.web_use.bridge.tokens import PageTokens
from mulligan.tools.web_use.bridge.verdict import Driven, before, dispatched, holds, judged
from mulligan.tools.web_use.codes import WebUseFailed
from mulligan.tools.web_use.commands import Condition
from mulligan.tools.web_use.results import Evidence

LOOK = Look(
    "ready", "http://a.test/saved", "Saved", "Report saved for week 12", '- button "Back" [ref=e1]'
)


@pytest.mark.parametrize(
    ("returned", "witnessed", "sent"),
    [
        (True, (), True),
        (True, None, True),
        (False, ("mousedown",), True),
        (False, (), False),
        (False, None, None),
    ],
)
def test_two_witnesses_say_whether_input_was_sent(
    returned: bool, witnessed: tuple[str, ...] | None, sent: bool | None
) -> None:
    assert sent is dispatched(Driven(returned, "timed out", witnessed))


@pytest.mark.parametrize(
    ("condition", "value", "held"),
    [
        ("text_contains", "saved  for\nweek", True),
        ("text_contains", "SAVED", False),
        ("text_not_contains", "Error", True),
        ("text_not_contains", "saved", False),
        ("url_contains", "/saved", True),
        ("title_contains", "Saved", True),
        ("element_present", 'button "Back"', True),
        ("element_present", 'button "Save"', False),
    ],
)
def test_conditions(condition: Any, value: str, held: bool) -> None:
    one = Condition(condition=condition, value=value)

    assert held is holds(one, LOOK)
    assert holds(one, Look("navigating", "http://a.test/saved")) is None, "no evidence of anything"
    assert [held] == [seen.before for seen in before([one], LOOK)]


SEEN = st.sampled_from([True, False, None])
EVIDENCE = st.lists(
    st.builds(
        Evidence, condition=st.just("text_contains"), value=st.just("x"), before=SEEN, after=SEEN
    ),
    max_size=3,
)


@given(SEEN, EVIDENCE, EVIDENCE)
def test_what_an_act_comes_to(
    sent: bool | None, evidence: list[Evidence], failures: list[Evidence]
) -> None:
    outcome = judged(sent, evidence, failures)

    assert (sent is False) == (outcome == "not_started"), "only what was not sent may be repeated"
    if outcome == "confirmed":
        assert sent
        assert evidence
        assert all((one.before, one.after) == (False, True) for one in evidence)
        assert not any(one.after and not one.before for one in failures)
    if outcome == "done":
        assert sent
        assert not evidence


def test_each_misuse_of_a_token_has_its_code() -> None:
    """web3: used once, by its owner, of this process; the same command may come again."""
    tokens = PageTokens()
    token = tokens.issue("run:a", "page")
    assert "page" == tokens.page(token, "run:a", "act-1")
    tokens.take(token, "act-1")
    assert "page" == tokens.page(token, "run:a", "act-1")

    def code(token: str, owner: str, action: str) -> str:
        with pytest.raises(WebUseFailed) as failed:
            tokens.page(token, owner, action)
        return failed.value.code

    assert "page_context_consumed" == code(token, "run:a", "act-2")
    assert "page_context_owner_mismatch" == code(token, "run:b", "act-1")
    assert "page_context_stale" == code(PageTokens().issue("run:a", "page"), "run:a", "act-1")


@pytest.mark.parametrize(
    "shown",
    [
        "it is {secret}.",
        "http://a.test/?q=p%40ss+w%22rd+%27%C3%BC",
        "http://a.test/p%40ss%20w%22rd%20%27%C3%BC",
        '"p@ss w\\"rd \'ü"',
        '"p@ss w\\"rd \'\\u00fc"',
        "'p@ss w\"rd ''ü'",
        "http://a.test/p@ss%20w%22rd%20'%C3%BC",
        "http://a.test/?q=p@ss%20w%22rd%20%27%c3%bc",
        "http://a.test/#%70@ss%20w\"rd%20'ü",
        "p@ss\n w\"rd\t'ü",
    ],
)
def test_a_secret_is_replaced_in_every_spelling(shown: str) -> None:
    """web7"""
    secret = "p@ss w\"rd 'ü"
    redaction = Redaction([secret, "tiny"])

    hidden = redaction.value({"a": [shown.replace("{secret}", secret)], secret: 1})

    assert "***" in str(hidden["a"])
    assert "w" not in str(hidden["a"]).replace("http", "")
    assert secret not in hidden
    assert "tiny" == redaction.text("tiny"), "too short to be looked for: it is never typed"


def test_no_half_of_a_secret_is_left_where_a_title_is_cut() -> None:
    """web7"""
    shown = Shown(Redaction(["secret-4711"]))

    for at in range(480, 502):
        assert "secret" not in shown.title("x" * at + "secret-4711" + "x" * 100)
        assert "secret" not in shown.url("x" * (at + 7_692) + "secret-4711" + "x" * 100)
    assert 500 == len(shown.title("x" * 501))
