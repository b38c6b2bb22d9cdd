"""
Text made to take long, or to break the readers: a verdict within 300 ms, and nothing left behind.
"""

from __future__ import annotations

import json
import threading
import time
import tracemalloc

import pytest

from mulligan.completion.bounded import MAX_REPAIR_CHARACTERS, repaired
from mulligan.completion.check import check_output
from mulligan.completion.verdict import Completed, verdict_name

LIMIT_S = 0.3
SIZE = 65_536
SCHEMA = {
    "type": "object",
    "properties": {
        "a": {"type": "array", "items": {"type": "integer"}},
        "s": {"type": "string"},
    },
    "required": ["a"],
}
UNITS = [
    "{",
    "[",
    '["a" "b" "c ',
    'a" b "c ',
    '{"a":',
    "[[],",
    "(",
    "f(",
    '"',
    '\\"',
    "'",
    "`",
    "{}",
    "{a}",
    "[1]",
    '{"a":1}',
    "\\",
    "\\u",
    "\\n",
    "{[}]",
    "}{",
    ":",
    ",",
    "a=",
    "a.",
    "1,",
    "-",
    "e",
    "<",
    "</",
    "<|",
    "“",
    "//",
    "/*",
    "#",
    "\n",
    "null",
    "x = ",
    "{'a':",
    "it's ",
    '"x" ',
    "<think>",
    "</think>",
    "<tool_call>",
    "```",
    "~~~\n",
    "[A]",
    'say "hi", ',
    "�",
    "a:",
]


def repeated(unit: str, size: int = SIZE) -> str:
    return (unit * (size // len(unit) + 1))[:size]


HOSTILE = {
    **{f"{unit!r} alone": repeated(unit) for unit in UNITS},
    **{f"{unit!r} within": '{"a": ' + repeated(unit, SIZE - 10) + "}" for unit in UNITS},
    **{f"{unit!r} small": '{"a": ' + repeated(unit, 8_000) + "}" for unit in UNITS},
    **{
        f"{unit!r} in text": '{"s": "' + repeated(unit, 60_000) + '", "a": [],}'
        for unit in UNITS[::2]
    },
    **{f"{unit!r} before": repeated(unit, 60_000) + ' {"a": [1]}' for unit in UNITS[::2]},
    **{f"{unit!r} behind": '{"a": [1],} ' + repeated(unit, 60_000) for unit in UNITS[1::2]},
    "digits": '{"a": [' + "9" * 1_000_000 + "]}",
    "digits of a fraction": '{"a": [0.' + "9" * 1_000_000 + "]}",
    "digits of an exponent": '{"a": [1e' + "9" * 60_000 + "]}",
    "digits in Python": "{'a': [" + "9" * 60_000 + "]}",
    "digits in a string": json.dumps({"a": ["9" * 60_000]}),
    "deep": "[" * SIZE + "]" * SIZE,
    "deep in Python": "{'a':" * 8_000 + "1" + "}" * 8_000,
    "signs in Python": "{'a': [" + "-" * 60_000 + "1]}",
    "sums in Python": "{'a': [" + "1+" * 30_000 + "1]}",
    "tuples": "{'a': " + "(" * 30_000 + ")" * 30_000 + "}",
    "coercible": json.dumps({"a": ["1"] * 15_000}),
    "broken bytes": '{"a": "' + "\udcff" * 60_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_verdict_comes_in_time(name: str) -> None:
    """Processor time of this thread, so that a busy machine does not count."""
    begun = time.thread_time()
    verdict = check_output(HOSTILE[name], SCHEMA, mode="prompt")

    assert time.thread_time() - begun < LIMIT_S
    assert verdict_name(verdict)


def test_no_thread_is_left_and_memory_is_bounded() -> None:
    threads = threading.active_count()
    tracemalloc.start()
    for text in list(HOSTILE.values())[::23]:
        check_output(text, SCHEMA, mode="prompt")
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert threads == threading.active_count()
    assert peak_bytes < 64 * 1024 * 1024


def test_json_repair_is_stopped_by_the_work_that_it_does() -> None:
    assert repaired('["' + 'a" b "c ' * 1_000) is None
    assert repaired("{'a': 1}") == ({"a": 1},)
    assert repaired("x" * (MAX_REPAIR_CHARACTERS + 1)) is None


def test_a_deep_stack_is_no_exception() -> None:
    """The caller may already be near the limit of recursion."""

    def descend(levels: int) -> object:
        return descend(levels - 1) if levels else check_output("{'a': [[[[[1,]]]]]}")

    for levels in range(880, 960, 10):
        try:
            verdict = descend(levels)
        except RecursionError:
            continue
        assert isinstance(verdict, Completed) or verdict is not None
