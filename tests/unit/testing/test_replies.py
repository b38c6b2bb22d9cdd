"""
What the scripted model puts on the wire, without a wire.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from mulligan.testing.replies import Reply, reply_to
from mulligan.testing.script import script_of

STREAM: dict[str, Any] = {"model": "m", "messages": [], "stream": True}
COUNTED = STREAM | {"stream_options": {"include_usage": True}}
WITH_SUBMIT = STREAM | {"tools": [{"type": "function", "function": {"name": "submit_output"}}]}


def reply(body: dict[str, Any], **turn: Any) -> Reply:
    return reply_to(script_of([turn]).turns[0], body, 1)


def data(reply: Reply) -> list[Any]:
    """The events of a stream, without `[DONE]`."""
    lines = b"".join(reply.pieces).decode().split("\n\n")
    return [
        json.loads(line.removeprefix("data: ")) for line in lines if line and "[DONE]" not in line
    ]


def texts(reply: Reply) -> list[str]:
    deltas = [choice["delta"] for event in data(reply) for choice in event["choices"]]
    return [delta["content"] for delta in deltas if delta.get("content")]


@pytest.mark.parametrize(
    ("chunks", "pieces"),
    [
        (3, ["hel", "lo ", "you"]),
        ([1, 5], ["h", "ello ", "you"]),
        (["hello", " you"], ["hello", " you"]),
        (100, ["hello you"]),
    ],
)
def test_chunks(chunks: Any, pieces: list[str]) -> None:
    assert pieces == texts(reply(STREAM, text="hello you", chunks=chunks))


def test_pieces_need_no_text() -> None:
    assert ["a", "b"] == texts(reply(STREAM, chunks=["a", "b"]))


def test_json_is_submitted_where_that_is_offered_and_else_written() -> None:
    call = json.dumps(data(reply(WITH_SUBMIT, json={"a": 1}, chunks=1_000)))

    assert "submit_output" in call
    assert json.dumps('{"output":{"a":1},"assistant_message":null}') in call
    assert '{"a":1}' == "".join(texts(reply(STREAM, json={"a": 1})))


def test_reasoning_comes_before_the_text() -> None:
    deltas = [
        event["choices"][0]["delta"] for event in data(reply(STREAM, text="a", reasoning="b"))
    ]
    whole = b"".join(reply({**STREAM, "stream": False}, text="a", reasoning="b").pieces)

    assert ["reasoning_content", "content"] == [key for one in deltas[1:3] for key in one]
    assert "b" == json.loads(whole)["choices"][0]["message"]["reasoning_content"]


def test_usage_is_streamed_only_where_the_request_asks_for_it() -> None:
    """REC-21: as providers do."""
    usage = {"prompt_tokens": 1}

    assert "usage" not in data(reply(STREAM, text="a", usage=usage))[-1]
    assert usage == data(reply(COUNTED, text="a", usage=usage))[-1]["usage"]
    assert not [e for e in data(reply(COUNTED, text="a", usage=None)) if "usage" in e]


@pytest.mark.parametrize("at_byte", [0, 1, 50, 200])
def test_a_cut_comes_after_exactly_so_many_bytes(at_byte: int) -> None:
    cut = reply(STREAM, text="hello " * 20, fault={"kind": "cut", "at_byte": at_byte})
    whole = b"".join(reply(STREAM, text="hello " * 20).pieces)

    assert whole[:at_byte] == b"".join(cut.pieces)
    assert "close" == cut.end


def test_a_relabelled_cut_keeps_the_finish_reason() -> None:
    relabelled = reply(
        STREAM, tool_calls=[{"name": "f", "arguments": {"a": 1}}], fault={"kind": "relabel"}
    )

    events = data(relabelled)
    assert "tool_calls" == events[-1]["choices"][0]["finish_reason"]
    fragments = [e["choices"][0]["delta"].get("tool_calls") for e in events]
    arguments = "".join(f[0]["function"]["arguments"] for f in fragments if f)
    assert '{"a' == arguments


def test_a_loop_goes_on_after_the_text() -> None:
    loop = reply(STREAM, text="start ", fault={"kind": "loop", "text": "again ", "times": 3})

    assert "start again again again " == "".join(texts(loop))
