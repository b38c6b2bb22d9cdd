"""
Text made to take long, or to break the readers: a verdict all the same, soon, and nothing left
behind. `bench/hostile.py` measures how soon.
"""

from __future__ import annotations

import threading
import time
import tracemalloc

import pytest

from mulligan.completion.bounded import MAX_REPAIR_CHARACTERS, repaired
from mulligan.completion.check import check_output
from mulligan.completion.verdict import Completed, verdict_name
from mulligan.testing.hostile_text import HOSTILE

LIMIT_S = 3.0
"""Ten times what `bench/hostile.py` allows: what grows with the square takes longer still."""
SCHEMA = {
    "type": "object",
    "properties": {
        "a": {"type": "array", "items": {"type": "integer"}},
        "s": {"type": "string"},
    },
    "required": ["a"],
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
