"""
What the completion protocol costs beside what it is built of: `python bench/completion.py`.

One table. Each ratio comes from one run in which both sides take turns, best of several rounds, so
that a busy machine slows them alike. Limits (issue: the completion protocol): valid 4 KiB text at
no more than 1.3 times msgspec's decoding plus validation, malformed text at no more than 1.5 times
json-repair alone. Both validators are measured, since the choice between them rests on the figures.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import json_repair
import jsonschema_rs
import msgspec
from jsonschema import Draft202012Validator

from mulligan.completion.protocol import complete
from mulligan.completion.verdict import Completed, Evidence

ROUNDS = 15
ROUND_S = 0.02
STOPPED = Evidence("stop", True)
ITEM = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "title": {"type": "string", "minLength": 1},
        "tags": {"type": "array", "items": {"type": "string"}},
        "score": {"type": "number", "minimum": 0},
        "state": {"enum": ["open", "closed"]},
        "note": {"type": "string"},
    },
    "required": ["id", "title", "state"],
    "additionalProperties": False,
}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"items": {"type": "array", "items": ITEM}},
    "required": ["items"],
}


def sample(size_bytes: int) -> dict[str, Any]:
    """An output of about that size: a list of records with some prose."""
    items: list[dict[str, Any]] = []
    while len(json.dumps({"items": items})) < size_bytes:
        number = len(items)
        items.append(
            {
                "id": number,
                "title": f"Finding {number} of the review",
                "tags": ["alpha", "beta"],
                "score": number * 1.5,
                "state": "open",
                "note": "What was seen, said to somebody, in a sentence or two.",
            }
        )
    return {"items": items}


def malformed(value: dict[str, Any]) -> dict[str, str]:
    """The same value in the ways in which models write it wrong."""
    text, pretty = json.dumps(value), json.dumps(value, indent=1)
    return {
        "trailing comma": text[:-2] + ",]}",
        "single quotes": repr(value),
        "bare keys": text.replace('"id"', "id").replace('"tags"', "tags"),
        "comments": pretty.replace("{\n", "{ // what follows\n"),
        "missing commas": pretty.replace(",\n", "\n"),
        "inner quotes": text.replace("said to", 'said "hi" to'),
        "raw newlines": text.replace(", in a", ",\nin a"),
    }


def seconds(calls: list[Callable[[], object]]) -> list[float]:
    """The best time of each call, over rounds in which they take turns."""
    counts = []
    for call in calls:
        begun = time.perf_counter()
        call()
        counts.append(max(1, int(ROUND_S / max(time.perf_counter() - begun, 1e-7))))
    best = [float("inf")] * len(calls)
    for _ in range(ROUNDS):
        for at, (call, count) in enumerate(zip(calls, counts, strict=True)):
            begun = time.perf_counter()
            for _ in range(count):
                call()
            best[at] = min(best[at], (time.perf_counter() - begun) / count)
    return best


def row(name: str, ours: float, theirs: float, limit: float | None = None) -> None:
    """One line of the table, in microseconds."""
    bound = f"limit {limit}" if limit else ""
    print(f"{name:<44} {ours * 1e6:>10.1f} {theirs * 1e6:>10.1f} {ours / theirs:>7.2f}  {bound}")


def bench_valid() -> None:
    """Valid text, against decoding and validating alone, with either validator."""
    for size in (200, 4_096, 65_536):
        value = sample(size)
        text = json.dumps(value)
        decode = msgspec.json.Decoder().decode
        fast = jsonschema_rs.Draft202012Validator(SCHEMA).is_valid
        reference = Draft202012Validator(SCHEMA).is_valid

        def ours(text: str = text) -> object:
            return complete(text, SCHEMA, STOPPED)

        def with_reference(text: str = text, decode: Any = decode, fit: Any = reference) -> object:
            return fit(decode(text))

        def with_fast(text: str = text, decode: Any = decode, fit: Any = fast) -> object:
            return fit(decode(text))

        assert isinstance(ours(), Completed)
        took, slow, quick = seconds([ours, with_reference, with_fast])
        row(f"valid {len(text)} B / msgspec + jsonschema", took, slow, 1.3)
        row(f"valid {len(text)} B / msgspec + jsonschema-rs", took, quick)


def bench_malformed() -> None:
    """Malformed text, against json-repair alone."""
    for size in (200, 4_096, 50_000):
        for name, text in malformed(sample(size)).items():

            def ours(text: str = text) -> object:
                return complete(text, SCHEMA, STOPPED)

            def theirs(text: str = text) -> object:
                return json_repair.loads(text, skip_json_loads=True)

            done = type(ours()).__name__
            took, alone = seconds([ours, theirs])
            row(f"{name}, {len(text)} B ({done}) / json-repair", took, alone, 1.5)


def main() -> None:
    """Print the table."""
    print(f"{'':<44} {'ours µs':>10} {'theirs µs':>10} {'ratio':>7}")
    bench_valid()
    bench_malformed()


if __name__ == "__main__":
    main()
