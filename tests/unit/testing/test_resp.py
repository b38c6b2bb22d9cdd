"""Messages of Redis's protocol are told apart wherever the stream is cut into pieces."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mulligan.testing.resp import Frames

MESSAGES = [
    b"+OK\r\n",
    b"-ERR no\r\n",
    b":7\r\n",
    b"$5\r\na\r\nbc\r\n",
    b"$0\r\n\r\n",
    b"$-1\r\n",
    b"*-1\r\n",
    b"*0\r\n",
    b"*2\r\n$4\r\nPING\r\n*1\r\n:1\r\n",
    b"%1\r\n+key\r\n*2\r\n:1\r\n:2\r\n",
    b"~1\r\n+one\r\n",
    b">2\r\n+message\r\n$2\r\nhi\r\n",
    b"|1\r\n+ttl\r\n:9\r\n*1\r\n+with an attribute\r\n",
    b"=7\r\ntxt:abc\r\n",
    b"_\r\n",
    b"#t\r\n",
    b",3.25\r\n",
]


@pytest.mark.parametrize("message", MESSAGES)
def test_a_message_is_given_once_its_last_byte_is_there(message: bytes) -> None:
    frames = Frames()

    assert list(frames.feed(message[:-1])) == []
    assert list(frames.feed(message[-1:])) == [message]


@given(
    st.lists(st.sampled_from(MESSAGES), max_size=8),
    st.lists(st.integers(0, 200), max_size=8),
)
def test_however_a_stream_is_cut_its_messages_are_the_same(
    messages: list[bytes], cuts: list[int]
) -> None:
    stream = b"".join(messages)
    places = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    frames = Frames()

    given = [one for a, b in pairwise(places) for one in frames.feed(stream[a:b])]

    assert given == messages
