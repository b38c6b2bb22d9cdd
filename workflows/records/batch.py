"""A batch: the records of each document, and where a value of it lies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Batch = dict[str, Any]
"""{instructions, documents: [{id, records}]}, in the order of the input's documents."""

INSTRUCTIONS = (
    "A record has number, date and due (YYYY-MM-DD), currency, lines (each with description, "
    "quantity, unit_price, amount), net, tax_rate (percent), tax and total."
)


def collect(input: dict[str, Any], extract: list[dict[str, Any]]) -> Batch:  # noqa: A002 - the workflow's name for it
    """What the agents read, by document."""
    return {
        "instructions": INSTRUCTIONS,
        "documents": [
            {"id": document["id"], "records": read["records"]}
            for document, read in zip(input["documents"], extract, strict=True)
        ],
    }


def records(batch: Batch) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """Each record, with the positions of its document and of itself in it."""
    for at, document in enumerate(batch["documents"]):
        for number, record in enumerate(document["records"]):
            yield at, number, record


def section_of(batch: Batch, at: int, number: int) -> str:
    """What people call a record: `letter-7#2` for the second of the document `letter-7`."""
    return f"{batch['documents'][at]['id']}#{number + 1}"


def pointer(at: int, number: int, *steps: str | int) -> str:
    """The JSON pointer of a value of a record."""
    return "/" + "/".join(str(one) for one in ("documents", at, "records", number, *steps))


def value_at(batch: Batch, path: str) -> Any:
    """The value at a pointer. Raises KeyError, IndexError, TypeError or ValueError if none is."""
    found: Any = batch
    for step in path.strip("/").split("/"):
        found = found[int(step)] if isinstance(found, list) else found[step]
    return found


def with_value(found: Any, path: str, value: Any) -> Any:
    """A copy in which the value at a pointer is another; everything else is as it was."""
    step, _, rest = path.strip("/").partition("/")
    key: Any = int(step) if isinstance(found, list) else step
    copy = found.copy()
    copy[key] = with_value(found[key], rest, value) if rest else value
    return copy
