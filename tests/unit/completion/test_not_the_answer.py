"""
One value is there, but the model did not mean it as the whole answer (OUT-3): it is not completed.
"""

from __future__ import annotations

import pytest

from mulligan.completion.check import check_output
from mulligan.completion.verdict import (
    Completed,
    InvalidJson,
    TruncatedResponse,
    Verdict,
    WrongEnvelope,
)

ADDRESS = {"type": "object", "properties": {"name": {"type": "string"}}}
PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "age": {"type": "integer"},
        "address": ADDRESS,
        "answer": {"type": "string"},
    },
    "required": ["name"],
}
ANN = '{"name": "Ann"}'


def judge(text: str) -> Verdict:
    return check_output(text, PERSON, mode="prompt")


@pytest.mark.parametrize(
    "text",
    [
        f"<address>{ANN}</address>",
        f"<parameter=address>{ANN}</parameter>",
        f'<parameter name="address">{ANN}</parameter>',
    ],
)
def test_a_tag_that_names_a_field_holds_that_field(text: str) -> None:
    assert isinstance(judge(text), InvalidJson)


def test_a_tag_around_answers_may_be_named_as_a_field() -> None:
    assert isinstance(judge(f"<answer>{ANN}</answer>"), Completed)


@pytest.mark.parametrize(
    "text",
    [
        f"<example>{ANN}</example>",
        f"<draft>{ANN}</draft>",
        f"<tool_response>{ANN}</tool_response>",
        f"example = {ANN}",
        f"E.g.\n```json\n{ANN}\n```\nWhich name is it?",
        f"Something like {ANN} would do.",
        f"You could call it with {ANN}, but I won't.",
        f"Do not use {ANN}.",
        f"Observation: {ANN}",
    ],
)
def test_what_is_said_to_be_no_answer_is_none(text: str) -> None:
    assert isinstance(judge(text), InvalidJson)


@pytest.mark.parametrize(
    "text",
    [
        f"// {ANN}",
        f"<!-- {ANN} -->",
        f"x != {ANN}",
        f"ready && {ANN}",
        f"lambda: {ANN}",
        f"() => ({ANN})",
        f"{ANN} if ready else None",
        f": {ANN}",
    ],
)
def test_a_comment_or_an_operand_is_no_answer(text: str) -> None:
    assert isinstance(judge(text), InvalidJson)


@pytest.mark.parametrize("ending", ["</think>", "\n</reasoning>\n"])
def test_a_value_that_ends_the_reasoning_is_part_of_it(ending: str) -> None:
    """Its opening tag is in the prompt, and the answer never came."""
    assert isinstance(judge(ANN + ending), TruncatedResponse)


@pytest.mark.parametrize("key", ["arguments", "args", "input", "parameters"])
def test_a_call_is_no_output_though_the_schema_has_a_name(key: str) -> None:
    """OUT-4."""
    assert isinstance(judge(f'{{"name": "look_up", "{key}": {{"x": 1}}}}'), WrongEnvelope)


@pytest.mark.parametrize(
    "text",
    [
        '{"name": “Ann", "note": "x”}',
        '{name: "Ann“, note: ”x"}',
        "{'name': 'Ann\", \"note\": \"x'}",
    ],
)
def test_a_string_that_may_end_in_another_quote_is_not_read(text: str) -> None:
    assert isinstance(judge(text), InvalidJson)


@pytest.mark.parametrize("name", ['he said "yes", then', 'x = {"k": "v", "w": [1]}'])
def test_quotes_of_another_kind_stay_in_a_string(name: str) -> None:
    verdict = judge("{'name': '" + name + "'}")

    assert isinstance(verdict, Completed)
    assert verdict.output == {"name": name}


@pytest.mark.parametrize(
    "behind",
    ["\n\n**Note:** x", "\n\n(I assumed that.)", "\n* one\n* two", "\n| a |\n", "\n\n[1] x.org"],
)
def test_prose_may_go_on_in_any_way_on_a_line_of_its_own(behind: str) -> None:
    assert isinstance(judge(ANN + behind), Completed)


@pytest.mark.parametrize("text", ['<invoke name="sub', "<invoke na", "<|channel|>fin"])
def test_a_tag_cut_within_is_seen(text: str) -> None:
    assert isinstance(judge(text), TruncatedResponse)
