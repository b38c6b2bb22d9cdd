"""
Keeps the history of a run as a file that later versions of the code must still read:

    python tests/histories/record.py REDIS_URL RUN NAME

A line an event, as it is stored. Folders of the machine that made it are not kept.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from mulligan.events.keys import Keys, partition_of
from mulligan.events.redis_connection import connect
from mulligan.events.redis_store import RedisEventStore
from mulligan.projections.run import fold

FOLDER = Path(__file__).parent


def record(url: str, run: str, name: str) -> None:
    """Write `<name>.jsonl`; `expected.json` is to say what the run came to."""
    store = RedisEventStore(url)
    state = fold(run, store.read(run))
    folders = state.plan.code_path if state.plan is not None else ()
    with connect(url) as client:
        entries = client.xrange(Keys(partition_of(run, store.partitions())).run(run))
    lines = [json.dumps(_line(entry, fields, folders)) + "\n" for entry, fields in entries]
    (FOLDER / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")
    store.close()


def _line(
    entry: bytes, fields: dict[bytes, bytes], folders: tuple[str, ...]
) -> dict[str, str | int]:
    text = {name.decode(): value.decode() for name, value in fields.items()}
    for folder in folders:
        text = {name: value.replace(folder, "/flow") for name, value in text.items()}
    return {"version": int(entry.partition(b"-")[0]), **text}


if __name__ == "__main__":
    record(*sys.argv[1:])
