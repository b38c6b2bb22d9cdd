"""
What a run costs in the log's memory, and what is left of it once it is archived:

    python bench/memory.py                     # 100,000 runs of 20 events, of 300 bytes and of 2 KB
    python bench/memory.py --runs 5000         # soon, for a look

Runs are appended by the log's own script to a Valkey of its own, seven appends a run as workers
make them, and followed by the projector; memory is what the server says it uses (`used_memory`),
less what it used when it was empty. The payload is the bytes of the events as they are stored. The
append-only file is off, which costs disk and no memory.
"""

from __future__ import annotations

import argparse
import secrets
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from redis import Redis

from mulligan.actors.archiver import Archiver
from mulligan.actors.rounds import FEED_KEPT, IDLE_MS
from mulligan.events import facts
from mulligan.events.archived_store import ArchivedStore
from mulligan.events.envelope import NewEvent
from mulligan.events.file_archive import FileArchive
from mulligan.events.keys import Keys
from mulligan.events.payload import Payload
from mulligan.events.prepared import prepare
from mulligan.events.redis_append import append_args, append_keys
from mulligan.events.redis_scripts import source
from mulligan.events.store import Append, AsNew, ByVersion
from mulligan.projections.projector import Projector
from mulligan.projections.rows import STORED
from mulligan.schemas.plan import AgentPlan, NodePlan, ToolSpec, plan_to_dict
from mulligan.testing.given import plan_of
from mulligan.testing.server import ValkeyServer

EVENTS = 20
GOALS = {300: 1.7, 2_048: 1.15}
"""Memory of an event, as a multiple of its payload."""
ROW_BYTES = 400
"""What may be left of an archived run: its row in the index, as a hash keeps it."""
ARCHIVED_AT_ONCE = 10_000
PIPELINED = 1_000
PADDED = 11
"""Events of a run that hold a value whose length is free, the first not counted."""


def main() -> int:
    """Measure each size; 0 if every goal is met."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--runs", type=int, default=100_000)
    options.add_argument("--bytes", type=int, nargs="+", default=list(GOALS))
    given = options.parse_args()
    rows = [Measured(given.runs, size) for size in given.bytes]
    for row in rows:
        row.measure()
    show(rows)
    return 0 if all(row.fits for row in rows) else 1


class Measured:
    """One server, filled and emptied."""

    def __init__(self, runs: int, size: int) -> None:
        self.runs = runs
        self.size = size
        self.payload = 0
        self.parts: dict[str, float] = {}
        self.whole = self.left = 0.0
        self.archived_s = 0.0

    @property
    def fits(self) -> bool:
        """Whether the goals are met."""
        goal = GOALS.get(self.size)
        return (goal is None or self.whole <= goal * self.payload) and self.left <= ROW_BYTES

    def measure(self) -> None:
        """Fill, look, archive, look again."""
        with ValkeyServer() as server, tempfile.TemporaryDirectory() as folder:
            store = ArchivedStore(server.url, FileArchive(Path(folder)))
            store.partitions()
            self._client = server.client()
            empty = self._used()
            runs = self._fill(store)
            Projector(store).catch_up()
            store.trim_feed(0, keep=FEED_KEPT, idle_ms=IDLE_MS)
            self.whole = (self._used() - empty) / (self.runs * EVENTS)
            self._look()
            self._archive(store, runs, Path(folder))
            self.left = (self._used() - empty - self._memory(Keys(0).feed)) / self.runs
            self._client.close()
            store.close()

    def _fill(self, store: ArchivedStore) -> list[str]:
        runs, total = fill(self._client, self.runs, history(self.size))
        self.payload = round(total / (self.runs * EVENTS))
        return runs

    def _look(self) -> None:
        """What the hashes and the feed take of it, an event; the rest are the runs' streams."""
        keys = Keys(0)
        self.parts = {
            "feed": self._memory(keys.feed),
            "index": self._memory(keys.runs),
            "rows": sum(self._memory(keys.rows(rows.name)) for rows in STORED),
        }
        self.parts = {name: size / (self.runs * EVENTS) for name, size in self.parts.items()}
        self.parts["streams"] = self.whole - sum(self.parts.values())

    def _archive(self, store: ArchivedStore, runs: list[str], folder: Path) -> None:
        began_s = time.monotonic()
        archiver = Archiver(store, FileArchive(folder))
        for first in range(0, len(runs), ARCHIVED_AT_ONCE):
            done = archiver.archive(runs[first : first + ARCHIVED_AT_ONCE])
            assert not done.left
            say(f"{self.size} bytes: {first + len(done.runs):,} archived")
        self.archived_s = time.monotonic() - began_s
        assert sum(1 for _ in folder.rglob("*.gz")) == len(runs)

    def _used(self) -> int:
        memory: dict[str, Any] = self._client.info("memory")
        return int(memory["used_memory"])

    def _memory(self, key: str) -> int:
        return int(self._client.memory_usage(key, samples=0) or 0)


def fill(client: Redis, count: int, told: list[list[NewEvent]]) -> tuple[list[str], int]:
    """Append so many runs to the only partition; their names, and the bytes of their events."""
    script = client.script_load(source("append"))
    runs, total = [], 0
    pipeline = client.pipeline(transaction=False)
    for number in range(1, count + 1):
        run = f"research-{secrets.token_hex(6)}"
        runs.append(run)
        for append in appends(run, told):
            prepared = prepare(append)
            total += sum(map(len, prepared.raw))
            keys = append_keys(Keys(0), prepared)
            pipeline.execute_command("EVALSHA", script, len(keys), *keys, *append_args(prepared))
        if number % PIPELINED == 0 or number == count:
            pipeline.execute()
            say(f"{number:,} runs")
    return runs, total


# --- A run ---------------------------------------------------------------------------------------


def history(size: int) -> list[list[NewEvent]]:
    """The appends of a run of one agent with four calls; its events have `size` bytes each."""
    filler = 0
    for _ in range(4):  # lengths are written down in the events, and change their lengths
        total = sum(
            len(raw) for append in appends("run", _history(filler)) for raw in prepare(append).raw
        )
        filler = max(0, filler + (size * EVENTS - total) // PADDED)
    return _history(filler)


def _history(filler: int) -> list[list[NewEvent]]:
    value = Payload.of("x" * filler)
    calls = [f"a.1.{number}" for number in range(1, 5)]
    made = tuple(facts.CallMade(call_id=call, provider_id=call, name="t") for call in calls)
    asked = [
        facts.ToolRequested(
            call_id=call,
            invocation="a",
            tool="t",
            provider_id=call,
            arguments=value,
            effect="read",
            key=call,
        )
        for call in calls
    ]
    starts = [facts.ToolStarted(call_id=call, execution=1) for call in calls]
    results = [facts.ToolSucceeded(call_id=call, result=value) for call in calls]
    request = facts.ModelRequested(
        request_id="a#1", invocation="a", turn=1, mode="tool", model="m", digest="d"
    )
    answer = facts.ModelAnswered(
        request_id="a#1",
        invocation="a",
        finish_reason="stop",
        terminal=True,
        calls=made,
        text=value,
    )
    end = (facts.NodeCompleted(output=value), facts.RunCompleted(output=value))
    told: list[list[facts.Fact]] = [
        [_requested()],
        [facts.RunStarted(), facts.NodeReady(), facts.NodeStarted(), request],
        [answer, *asked, starts[0]],
        *([result, start] for result, start in zip(results, starts[1:], strict=False)),
        [results[-1], *end],
    ]
    return [[_of_node(fact) for fact in facts_of] for facts_of in told]


def _of_node(fact: facts.Fact) -> NewEvent:
    of_run = isinstance(fact, facts.RunRequested | facts.RunStarted | facts.RunCompleted)
    return NewEvent(fact) if of_run else NewEvent(fact, node="a", attempt=1)


def _requested() -> facts.RunRequested:
    agent = AgentPlan(prompt="Do.", model="m", output_schema={}, recovery_limit=2, tools=("m:t",))
    tool = ToolSpec(name="t", description="", parameters={}, effect="read", path="m:t", digest="")
    plan = plan_of(NodePlan(id="a", work=agent), tools={"m:t": tool})
    return facts.RunRequested(
        workflow="w", workflow_version=1, digest="", plan=plan_to_dict(plan), input=Payload.of(1)
    )


def appends(run: str, told: list[list[NewEvent]]) -> Iterator[Append]:
    """A run's appends, each with an operation of its own."""
    version = 0
    for place, events in enumerate(told):
        yield Append(
            run=run,
            op=secrets.token_urlsafe(12),
            writer=ByVersion(version) if place else AsNew(secrets.token_hex(32)),
            events=tuple(events),
            phase="closed" if place == len(told) - 1 else None,
        )
        version += len(events)


# --- Words ---------------------------------------------------------------------------------------


def say(sentence: str) -> None:
    """Progress, on standard error."""
    print(sentence, file=sys.stderr)


def show(measured: list[Measured]) -> None:
    """The table."""
    print(
        "| runs | payload an event | memory an event | ratio | goal "
        "| of it: streams, feed, index, rows |"
    )
    print("|---|---|---|---|---|---|")
    for one in measured:
        parts = ", ".join(f"{one.parts[name]:.0f}" for name in ("streams", "feed", "index", "rows"))
        goal = GOALS.get(one.size)
        print(
            f"| {one.runs:,} | {one.payload} bytes | {one.whole:.0f} bytes "
            f"| {one.whole / one.payload:.2f} | {goal or '-'} | {parts} |"
        )
    print("\n| payload an event | left of an archived run | archived a second |")
    print("|---|---|---|")
    for one in measured:
        rate = one.runs / one.archived_s
        print(f"| {one.payload} bytes | {one.left:.0f} bytes | {rate:.0f} |")


if __name__ == "__main__":
    sys.exit(main())
