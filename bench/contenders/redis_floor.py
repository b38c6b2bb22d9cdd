"""
The floors under our steps, over one connection: a bare XADD for each, or one append of the log's
own script, its bytes prepared, with one event.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import count
from time import perf_counter

from serving import serve

from mulligan.events import facts
from mulligan.events.envelope import NewEvent
from mulligan.events.keys import Keys
from mulligan.events.payload import Payload
from mulligan.events.prepared import prepare
from mulligan.events.redis_append import append_args, append_keys
from mulligan.events.redis_scripts import digest_of, source
from mulligan.events.store import Append, AsNew, ByVersion
from mulligan.wire import Wire, Word
from mulligan.wire_address import address_of

EVENT = b'{"id":"aaaaaaaaaaaaaaaa.0","type":"NodeCompleted","node":"n1","data":{"output":{"v":1}}}'


def appends_of(run: str, steps: int) -> list[list[Word]]:
    """The commands of a run's appends; they go to keys apart from those of real runs."""
    keys = Keys(9)
    requested = facts.RunRequested(
        workflow="w", workflow_version=1, digest="", plan={}, input=Payload.of(1)
    )
    found = []
    for version in range(steps + 1):
        fact = facts.NodeCompleted(output=Payload.of(1)) if version else requested
        writer = ByVersion(version) if version else AsNew("d")
        event = NewEvent(fact, node="n" if version else None)
        prepared = prepare(Append(run=run, op=f"op{version}", writer=writer, events=(event,)))
        names = append_keys(keys, prepared)
        script = digest_of(source("append"))
        found.append(["EVALSHA", script, len(names), *names, *append_args(prepared)])
    return found


def main() -> None:
    """`redis_floor.py URL xadd|append`"""
    address = address_of(sys.argv[1])
    assert address is not None
    wire = Wire(address, connect_timeout_s=5, answer_timeout_s=30)
    wire.call("SCRIPT", "LOAD", source("append"))
    names = (f"floor{number}" for number in count())

    def xadds(steps: int) -> list[list[Word]]:
        return [["XADD", next(names), "*", "d", EVENT]] * (steps + 1)

    def appends(steps: int) -> list[list[Word]]:
        return appends_of(next(names), steps)

    made: Callable[[int], list[list[Word]]] = {"xadd": xadds, "append": appends}[sys.argv[2]]

    def chain(steps: int, chains: int) -> list[float]:
        prepared = [made(steps) for _ in range(chains)]
        for first, *_ in prepared:
            wire.call(*first)  # the run's request is no step
        began_s = perf_counter()
        for _, *rest in prepared:
            for command in rest:
                wire.call(*command)
        return [perf_counter() - began_s]

    serve({"chain": chain})


if __name__ == "__main__":
    main()
