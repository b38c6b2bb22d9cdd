"""
What models put around a value (OUT-3, 2): it comes off, and a cut within it is seen.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mulligan.completion.check import check_output
from mulligan.completion.verdict import Completed, InvalidJson, TruncatedResponse, Verdict

Wrap = Callable[[str], str]

WRAPPINGS: dict[str, Wrap] = {
    "bom": lambda t: "\ufeff" + t,
    "fence": lambda t: f"```json\n{t}\n```",
    "fence_plain": lambda t: f"```\n{t}\n```",
    "fence_tilde": lambda t: f"~~~json\n{t}\n~~~",
    "fence_inline": lambda t: f"```json {t}```",
    "fence_code": lambda t: f"```javascript\nconst out = {t};\n```",
    "fence_prose": lambda t: f"Sure, it's here:\n\n```json\n{t}\n```\n\nHope it helps!",
    "inline_code": lambda t: f"`{t}`",
    "prose": lambda t: f"Sure! Here it is: {t}\nLet me know.",
    "prose_with_brackets": lambda t: f"With {{name}} and [1] in mind. {t}",
    "think": lambda t: '<think>\nmaybe {"x": 1} or [\n</think>\n' + t,
    "thinking": lambda t: f"<thinking>hm, it's</thinking>\n\n```json\n{t}\n```",
    "think_unopened": lambda t: 'okay, {"x": 1} it is\n</think>\n' + t,
    "think_brackets": lambda t: f"[THINK]hm {{[/THINK]{t}",
    "think_channels": lambda t: (
        "<|channel|>analysis<|message|>Need {json}.<|end|>"
        f"<|start|>assistant<|channel|>final<|message|>{t}<|return|>"
    ),
    "tool_call": lambda t: f"<tool_call>\n{t}\n</tool_call>",
    "function_tag": lambda t: f"<tool_call><function=submit_output>{t}</function></tool_call>",
    "answer_tag": lambda t: f"Done.\n<answer>{t}</answer>",
    "bracket_tag": lambda t: f"[TOOL_CALL]{t}[/TOOL_CALL]",
    "special_token": lambda t: f"{t}<|im_end|>",
    "assignment": lambda t: f"args = {t}",
    "typed_assignment": lambda t: f"const out: Output = {t};",
    "call": lambda t: f"submit_output({t})",
    "return_call": lambda t: f"return submit({t});",
    "semicolon": lambda t: f"{t};",
    "twice": json.dumps,
    "fence_twice": lambda t: f"```json\n{json.dumps(t)}\n```",
    "escaped": lambda t: json.dumps(t)[1:-1],
    "double_quoted": lambda t: f'"{t}"',
    "surplus_brace": lambda t: t + "}",
    "surplus_bracket": lambda t: t + "]",
}
OBJECT = {"type": "object"}

awkward = st.sampled_from(
    [
        "it's",
        'say "hi" now',
        "a, b: c",
        "x = 1",
        "{brace}",
        "[1]",
        "ends with \\",
        "C:\\new",
        "</think>",
        "<tool_call>",
        "// no comment",
        "# no",
        "line\nbreak",
        "50%",
        "“smart”",
        "```",
    ]
)
texts = st.text(max_size=12) | awkward
# A string that holds a fence can't be told from one if it stands in a fence.
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**80), 2**80)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(texts, values, min_size=1, max_size=4).filter(
    lambda value: not value.keys() & {"output", "assistant_message"}
)


def judge(text: str) -> Verdict:
    return check_output(text, OBJECT, mode="prompt")


def dumped(value: Any, ascii_only: bool = True) -> str:
    return json.dumps(value, ensure_ascii=ascii_only)


def holds(value: Any, *texts: str) -> bool:
    return any(text in json.dumps(value, ensure_ascii=False) for text in texts)


@pytest.mark.parametrize("wrapping", WRAPPINGS)
@settings(max_examples=25)
@given(value=objects, ascii_only=st.booleans())
def test_every_value_comes_back_equal(
    wrapping: str, value: dict[str, Any], ascii_only: bool
) -> None:
    if wrapping.startswith(("fence", "thinking", "inline")) and holds(value, "`", "~"):
        return
    verdict = judge(WRAPPINGS[wrapping](dumped(value, ascii_only)))

    assert isinstance(verdict, Completed)
    assert value == verdict.output


@pytest.mark.parametrize("wrapping", WRAPPINGS)
@settings(max_examples=25)
@given(value=objects, data=st.data())
def test_no_cut_gives_another_value(
    wrapping: str, value: dict[str, Any], data: st.DataObject
) -> None:
    text = WRAPPINGS[wrapping](dumped(value))
    # Until its end, nothing tells a draft in reasoning without an opening tag from an answer.
    first = text.index("</think>") if wrapping == "think_unopened" else 0
    verdict = judge(text[: data.draw(st.integers(first + 1, len(text) - 1))])

    assert not isinstance(verdict, Completed) or verdict.output == value


@pytest.mark.parametrize("wrapping", WRAPPINGS)
def test_every_cut_within_the_value_is_truncated(wrapping: str) -> None:
    value = {"city": "Bern", "tags": ["a", {"b": -1.5, "c": None}], "ok": True}
    inner = dumped(value)
    text = WRAPPINGS[wrapping](inner)
    last = text.rindex("true") + 4
    first = min(at for at in (text.find('{"city'), text.find('{\\"city')) if at >= 0)

    for cut in range(first + 1, last + 1):
        assert isinstance(judge(text[:cut]), TruncatedResponse), text[:cut]


@pytest.mark.parametrize(
    "text",
    [
        "<think>let me see",
        "<tool_call>",
        "```json\n",
        "args =",
        "submit(",
        "```",
        "<think>x</think>",
        "Here it is:",
        "<|channel|>",
        '"',
        "[TOOL_CALL]",
        "json.loads('",
        "<tool_ca",
        "-",
        "tru",
    ],
)
def test_a_cut_before_the_value_is_truncated(text: str) -> None:
    assert isinstance(judge(text), TruncatedResponse)


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1}{"a": 2}',
        '{"a": 1}\n{"a": 1}',
        'Draft: {"a": 1}\nFinal: {"a": 2}',
        '```json\n{"a": 1}\n```\nor\n```json\n{"a": 2}\n```',
        '<tool_call>{"a": 1}</tool_call>\n<tool_call>{"a": 2}</tool_call>',
        'As in `{"a": 1}`: {"a": 2}',
    ],
)
def test_of_several_candidates_none_is_chosen(text: str) -> None:
    """OUT-3, 4."""
    verdict = judge(text)

    assert isinstance(verdict, InvalidJson)
    assert "several_candidates" == verdict.issues[0].code


@pytest.mark.parametrize(
    "text",
    [
        '"a": {"b": 1}}',
        '"b: {"c": 1}}',
        '{"a": 1}}}',
        '{"a": 1}, "b": 2}',
        'x"}, {"b": 2}',
        '{"a": 1}["a"]',
        '{"a": 1}.items()',
        'f(a={"b": 1})',
        'submit(output={"a": 1}, assistant_message=null)',
        '{\n "a": {\n  "b": 1}\n  "c": 2\n }\n}',
        'The call looks like this:\n```json\n{"a": 1}\n```',
        "```python\ndef f():\n    return g()[0] or {'a': 1}\n```",
        '[{"a": 1}',
    ],
)
def test_a_piece_of_something_larger_is_no_value(text: str) -> None:
    assert not isinstance(judge(text), Completed)


def test_a_value_labelled_as_a_field_is_that_field_and_no_output() -> None:
    schema = {"type": "object", "properties": {"filter": {"type": "object"}, "a": {}}}

    assert not isinstance(check_output('filter = {"a": 1}', schema), Completed)
    assert not isinstance(check_output('The filter: {"a": 1}', schema), Completed)


@pytest.mark.parametrize(
    "text", ["Done.", "I can't do that.", "<think>{}</think>Done.", "42 or 43"]
)
def test_prose_alone_is_no_value(text: str) -> None:
    """REC-15."""
    assert isinstance(judge(text), InvalidJson)
    assert isinstance(check_output(text, mode="prompt"), InvalidJson)


@pytest.mark.parametrize(
    "text",
    [
        'Thought: look it up\nAction: search\nAction Input: {"query": "x"}',
        'Action\nsearch\nAction Input\n{"query": "x"}',
        "<function=search><parameter=query>x</parameter></function>",
        '[TOOL_CALL]\n{tool => "list", args => {\n  --category "x"\n}}\n[/TOOL_CALL]',
        'search(query="x")',
    ],
)
def test_a_call_written_as_text_is_no_output(text: str) -> None:
    """REC-15."""
    schema = {"type": "object", "properties": {"query": {"type": "string"}}}

    assert isinstance(check_output(text, schema, mode="prompt"), InvalidJson)


def test_reasoning_is_never_searched_for_a_value() -> None:
    verdict = judge('<think>a call is <tool_call>{"a": 1}</tool_call></think>')

    assert not isinstance(verdict, Completed)


def test_the_steps_are_told() -> None:
    verdict = judge('<think>x</think>\n```json\n{"a": 1,}\n```')

    assert ["reasoning", "fence", "respelled", "flat"] == [step.name for step in verdict.steps]
