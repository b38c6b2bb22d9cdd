"""
What the wire said, read from bytes: the same however they are cut, and nothing made up.
"""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mulligan.events.facts import Usage
from mulligan.providers.sse import EventReader
from mulligan.providers.wire import Heard, WireReader

STREAM = "text/event-stream"


def chunk(delta: dict[str, Any] | None = None, **rest: Any) -> bytes:
    """An event with one choice."""
    choice = {"index": 0, "delta": delta or {}, "finish_reason": rest.pop("finish_reason", None)}
    return (
        b"data: " + json.dumps({"choices": [choice], **rest}, ensure_ascii=False).encode() + b"\n\n"
    )


def call(index: int | None, arguments: str | None, **rest: Any) -> bytes:
    """An event with a fragment of a call."""
    function = {"arguments": arguments, "name": rest.pop("name", None)}
    return chunk({"tool_calls": [{"index": index, "function": function, **rest}]})


def heard(*pieces: bytes, content_type: str = STREAM) -> Heard:
    reader = WireReader(content_type)
    for piece in pieces:
        reader.feed(piece)
    return reader.end()


WHOLE = b"".join(
    [
        b": keep-alive\n\n",
        chunk({"role": "assistant", "content": "h\u00e9llo \U0001f600 "}, model="served"),
        chunk({"reasoning_content": "hm\u2026"}),
        b'data: {"choices": [{"index": 0,\r\ndata: "delta": {"content": "multi-line"}}]}\r\n\r\n',
        call(0, '{"q": ', id="a", name="search"),
        call(1, "{}", id="b", name="list"),
        call(0, '"\u00fc"}'),
        b"event: ping\ndata: {}\n\n",
        chunk(finish_reason="tool_calls"),
        b'data: {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 0}}\n\n',
        b"data: [DONE]\n\n",
        chunk({"content": "after the end"}),
    ]
)


@given(cuts=st.lists(st.integers(0, len(WHOLE)), max_size=12))
def test_any_chunking_of_the_same_bytes_gives_the_same_result(cuts: list[int]) -> None:
    """REC-16, REC-21."""
    edges = [0, *sorted(cuts), len(WHOLE)]
    pieces = [WHOLE[a:b] for a, b in itertools.pairwise(edges)]

    assert heard(*pieces) == heard(WHOLE)


def test_byte_by_byte_is_read_whole() -> None:
    result = heard(*(WHOLE[i : i + 1] for i in range(len(WHOLE))))

    assert result.text == "h\u00e9llo \U0001f600 multi-line"
    assert [(c.id, c.name, c.arguments) for c in result.calls] == [
        ("a", "search", '{"q": "\u00fc"}'),
        ("b", "list", "{}"),
    ]
    assert (result.finish_reason, result.done) == ("tool_calls", True)
    assert Usage(prompt_tokens=3, completion_tokens=0) == result.usage
    assert ("served", 3) == (result.served_model, result.reasoning_characters)
    assert not result.broken


@given(
    lines=st.lists(st.sampled_from(["data: a", "data:b", ": c", "event: e", "data", "", "x: y"])),
    end=st.sampled_from(["\n", "\r\n", "\r"]),
    cut=st.integers(0, 200),
)
def test_line_ends_of_any_kind_make_the_same_events(lines: list[str], end: str, cut: int) -> None:
    body = "".join(line + end for line in lines).encode()
    reader = EventReader()
    events = [*reader.feed(body[:cut]), *reader.feed(body[cut:])]

    assert list(EventReader().feed("".join(line + "\n" for line in lines).encode())) == events


def test_a_last_event_without_its_blank_line_is_not_one() -> None:
    """REC-12: half an event is not a finish reason."""
    assert heard(chunk(finish_reason="stop")[:-1]).finish_reason is None


@pytest.mark.parametrize("body", [b"", b"data: [DONE]\n\n", b": ping\n\n"])
def test_nothing_is_made_up_for_a_stream_without_events(body: bytes) -> None:
    """REC-12, REC-21."""
    result = heard(body)

    assert (None, None, "", ()) == (
        result.finish_reason,
        result.usage,
        result.text,
        result.calls,
    )


@pytest.mark.parametrize("reason", ["length", "stop", "tool_calls", "max_tokens", "made_up"])
def test_the_finish_reason_stays_as_received(reason: str) -> None:
    """REC-11, REC-21: `stop` with calls is not turned into `tool_calls`."""
    assert reason == heard(call(0, "{}", id="a"), chunk(finish_reason=reason)).finish_reason


@pytest.mark.parametrize(
    ("reported", "usage"),
    [
        (None, None),
        ({}, None),
        ({"prompt_tokens": 0, "completion_tokens": 0}, Usage(prompt_tokens=0, completion_tokens=0)),
        ({"completion_tokens": 7}, Usage(completion_tokens=7)),
        (
            {"prompt_tokens": -1, "completion_tokens": 7, "cost": -0.5},
            Usage(completion_tokens=7),
        ),
        (
            {"prompt_tokens": 10**40, "completion_tokens": 2**53, "cost": 10**400},
            Usage(completion_tokens=2**53),
        ),
        (
            {
                "prompt_tokens": 5,
                "completion_tokens_details": {"reasoning_tokens": 2},
                "prompt_tokens_details": {"cached_tokens": 0},
                "cost": 0.25,
            },
            Usage(prompt_tokens=5, reasoning_tokens=2, cached_tokens=0, cost_usd=0.25),
        ),
    ],
)
def test_usage_is_what_was_reported(reported: Any, usage: Usage | None) -> None:
    """REC-21: missing stays None, 0 stays 0."""
    assert usage == heard(chunk(usage=reported)).usage


def test_a_new_id_at_the_same_index_begins_a_new_call() -> None:
    result = heard(call(0, "{", id="a", name="f"), call(0, "}", id=None), call(0, "{}", id="b"))

    assert [("a", "f", "{}"), ("b", "", "{}")] == [
        (c.id, c.name, c.arguments) for c in result.calls
    ]


def test_the_same_id_repeated_in_every_fragment_is_one_call() -> None:
    fragments = [call(0, piece, id="a", name="f") for piece in ('{"a"', ": 1", "}")]

    assert ['{"a": 1}'] == [c.arguments for c in heard(*fragments).calls]


def test_a_name_repeated_in_every_fragment_is_one_call() -> None:
    fragments = [call(0, piece, name="f") for piece in ('{"a"', ": 1", "}")]

    assert ['{"a": 1}'] == [c.arguments for c in heard(*fragments).calls]


def test_fragments_without_an_index_belong_to_their_id_or_to_the_latest() -> None:
    result = heard(
        call(None, "{", id="a", name="f"),
        call(None, "[", id="b", name="g"),
        call(None, "]"),
        call(None, "}", id="a"),
    )

    assert ["{}", "[]"] == [c.arguments for c in result.calls]


def test_another_choice_is_not_mixed_in() -> None:
    other = (
        b'data: {"choices": [{"index": 1, "delta": {"content": "B"}, "finish_reason": "x"}]}\n\n'
    )

    result = heard(chunk({"content": "A"}), other)

    assert ("A", None) == (result.text, result.finish_reason)


@pytest.mark.parametrize("part", ["message", "delta"])
@pytest.mark.parametrize("index", [{}, {"index": 0}, {"index": None}])
def test_two_first_choices_are_no_answer_and_never_one_value(
    part: str, index: dict[str, Any]
) -> None:
    """`4` and `2` are not 42."""
    choices = [{**index, part: {"content": text}, "finish_reason": "stop"} for text in "42"]
    body = json.dumps({"choices": choices})
    stream = part == "delta"

    result = heard(
        f"data: {body}\n\n".encode() if stream else body.encode(),
        content_type=STREAM if stream else "application/json",
    )

    assert (True, True, None) == (result.broken, result.recognised, result.finish_reason)


def test_a_choice_without_an_index_is_the_first() -> None:
    body = b'{"choices": [{"index": null, "message": {"content": "A"}, "finish_reason": "stop"}]}'

    for start in (b"", b"\xef\xbb\xbf"):
        result = heard(start + body, content_type="application/json")
        assert ("A", "stop") == (result.text, result.finish_reason)


def test_a_whole_body_is_read_like_a_stream() -> None:
    message = {
        "content": [{"type": "text", "text": "part"}],
        "refusal": "no",
        "tool_calls": [
            {"id": "a", "function": {"name": "f", "arguments": '{"x": 1}'}},
            {"function": {"name": "f", "arguments": {"x": 2}}},
        ],
    }
    body = {"model": "m", "choices": [{"message": message, "finish_reason": None}]}

    result = heard(json.dumps(body).encode(), content_type="application/json")

    assert ("part", True, None, "m") == (
        result.text,
        result.refused,
        result.finish_reason,
        result.served_model,
    )
    assert [("a", '{"x": 1}'), ("", '{"x":2}')] == [(c.id, c.arguments) for c in result.calls]


def test_a_stream_whose_header_does_not_say_so_is_read_as_one() -> None:
    assert "stop" == heard(chunk(finish_reason="stop"), content_type="text/plain").finish_reason


def test_neither_text_nor_arguments_are_printed() -> None:
    """OVR-10."""
    result = heard(chunk({"content": "CANARY-text"}), call(0, "CANARY-args", id="a"))

    assert "CANARY" not in repr(result) + repr(result.calls)


@pytest.mark.parametrize(
    ("reasons", "heard_reason"),
    [
        (("stop", "length"), "length"),
        (("length", "stop"), "length"),
        (("content_filter", "stop"), "content_filter"),
        (("stop", "tool_calls"), "tool_calls"),
    ],
)
def test_out2_a_later_stop_takes_back_no_reason_that_says_otherwise(
    reasons: tuple[str, str], heard_reason: str
) -> None:
    assert heard(*(chunk(finish_reason=one) for one in reasons)).finish_reason == heard_reason
