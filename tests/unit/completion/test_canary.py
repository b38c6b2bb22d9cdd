"""
What a model wrote is quoted nowhere but in the value itself (OUT-5, OVR-10).
"""

from __future__ import annotations

import json
import logging
import traceback
from typing import Any

import msgspec
import pytest

from mulligan.completion.check import check_output
from mulligan.completion.verdict import Completed, verdict_name

CANARY = "Zanzibar4711"
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "n": {"type": "integer", "maximum": 5},
        "s": {"type": "string", "maxLength": 3, "pattern": "^a"},
        "e": {"enum": ["x", "y"]},
        "u": {"type": "array", "uniqueItems": True, "contains": {"const": 1}},
        "o": {"type": "object", "additionalProperties": {"type": "integer"}},
        "any": {"anyOf": [{"type": "integer"}, {"type": "boolean"}]},
        "one": {"oneOf": [{"type": "string"}, {"minLength": 1}]},
        "not": {"not": {"type": "string"}},
        "dep": {"dependentRequired": {"p": ["q"]}},
    },
    "propertyNames": {"maxLength": 5},
    "additionalProperties": False,
}
FAILING = [
    json.dumps({"output": value})
    for value in (
        {"n": CANARY},
        {"s": CANARY},
        {"e": CANARY},
        {"u": [CANARY, CANARY]},
        {"o": {CANARY: CANARY}},
        {"any": CANARY},
        {"one": CANARY},
        {"not": CANARY},
        {CANARY: 1},
        {"n": {CANARY: {CANARY: CANARY}}},
        CANARY,
        [CANARY],
    )
] + [
    CANARY,
    '{"s": "' + CANARY,
    '{"s": ' + CANARY + "}",
    "{'s': " + CANARY + "()}",
    f'{{"{CANARY}": 1, "{CANARY}": 2}}',
    f'{{"{CANARY}": 1}} {{"{CANARY}": 2}}',
    f'{{"s": "{CANARY}\ud800"}}',
    f"<think>{CANARY}",
    f"<{CANARY}>{{}}",
    f"{CANARY} = {{",
    f'{{"{CANARY}": {{}}}}',
]


@pytest.mark.parametrize("text", FAILING)
def test_no_issue_repr_or_log_quotes_the_candidate(
    text: str, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    verdict = check_output(text, SCHEMA)

    assert "completed" != verdict_name(verdict)
    shown = [repr(verdict), str(verdict), msgspec.json.encode(verdict).decode(), caplog.text]
    assert CANARY not in "".join([*shown, *capsys.readouterr()])


def test_a_completed_verdict_shows_its_output_as_a_type() -> None:
    verdict = check_output(json.dumps({"output": {"o": {}}, "assistant_message": CANARY}), SCHEMA)
    bare = check_output(json.dumps({CANARY: CANARY}))

    assert isinstance(verdict, Completed)
    assert CANARY == verdict.assistant_message
    for shown in (verdict, bare):
        assert CANARY not in repr(shown) + str(shown) + f"{shown!r:>3}"


def test_a_bug_in_a_reader_would_not_show_the_candidate(monkeypatch: pytest.MonkeyPatch) -> None:
    """Structs on the way print as their length, so that a traceback with locals is silent too."""

    def broken(*_: object) -> None:
        raise LookupError("broken")

    monkeypatch.setattr("mulligan.completion.mend.respell", broken)
    with pytest.raises(LookupError) as caught:
        check_output(f"{{'a': '{CANARY}',}}")

    assert CANARY not in "".join(traceback.format_exception(caught.value))
