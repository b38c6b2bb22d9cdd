"""
What every `EventStore` promises, and what it refuses; one suite for all of them.

The failures that the log's rules close stand in the docstrings; `docs/log.md` lists them by test.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
import pytest

from mulligan.errors import (
    EventUnreadable,
    InboxMoved,
    LeaseFenced,
    MulliganError,
    OperationStale,
    RunClosed,
    RunExists,
    RunUnknown,
    VersionConflict,
)
from mulligan.events.codec import decode
from mulligan.events.envelope import NewEvent
from mulligan.events.facts import (
    EffectReconciled,
    Fact,
    InputProvided,
    RunCancelRequested,
    RunCompleted,
    RunRequested,
    RunResumed,
    RunStarted,
    ToolStarted,
    ToolSucceeded,
)
from mulligan.events.payload import INLINE_LIMIT_BYTES, Payload, canonical
from mulligan.events.sealed import Sealed
from mulligan.events.store import (
    MAX_CLAIMS,
    MAX_EVENTS_OF_NEW_RUN,
    MAX_EVENTS_PER_APPEND,
    Append,
    Appended,
    AsFact,
    AsNew,
    ByTask,
    ByVersion,
    Claimed,
    EventStore,
    Held,
    Move,
    NotClaimed,
    Renewed,
    Row,
    Take,
    Writer,
)
from tests.contract.conftest import row_digest

RUN = "r1"
RUN_TASK = "r1/"
NODE_TASK = "r1/n:collect"
LEASE_MS = 10_000


def requested(value: object = 1) -> RunRequested:
    return RunRequested(
        workflow="brief", workflow_version=1, digest="wf", plan={}, input=Payload.of(value)
    )


def new(
    log: EventStore,
    *,
    run: str = RUN,
    op: str = "new",
    digest: str = "input-1",
    moves: tuple[Move, ...] | None = None,
    value: object = 1,
) -> Appended:
    own = (Move(f"{run}/", "ready"),) if moves is None else moves
    return log.append(
        Append(
            run=run, op=op, writer=AsNew(digest), events=(NewEvent(requested(value)),), moves=own
        )
    )


def held(log: EventStore, task: str = RUN_TASK, token: str = "t1") -> Claimed:
    claimed = log.claim(RUN, task, token, LEASE_MS)
    assert isinstance(claimed, Claimed), claimed
    return claimed


def by(claim: Claimed, *, intent: bool = False) -> ByTask:
    return ByTask(claim.task, claim.token, claim.op, claim.inbox, intent)


def add(
    log: EventStore,
    writer: Writer,
    op: str,
    *moves: Move,
    fact: Fact | None = None,
    phase: str | None = None,
) -> Appended:
    return log.append(
        Append(
            run=RUN,
            op=op,
            writer=writer,
            events=(NewEvent(fact or RunStarted()),),
            moves=moves,
            phase=phase,
        )
    )


def wake(
    log: EventStore, task: str = RUN_TASK, *, key: str = "question", op: str = "woken"
) -> None:
    fact = InputProvided(request_id=key, answer=Payload.of("yes"))
    add(log, AsFact(key), op, Move(task, "wake"), fact=fact)


def close(log: EventStore) -> Claimed:
    claim = held(log)
    fact = RunCompleted(output=Payload.of(1))
    add(log, by(claim), "closing", Move(RUN_TASK, "end"), fact=fact, phase="closed")
    return claim


def cancel(log: EventStore, op: str = "cancel-1") -> Appended:
    wake_run = Move(RUN_TASK, "wake")
    return add(log, AsFact("cancel"), op, wake_run, fact=RunCancelRequested(), phase="cancelling")


def refused(log: EventStore, kind: type[MulliganError], call: Callable[[], object]) -> None:
    """The call is refused with that error, and leaves no trace."""
    before = (log.read(RUN), log.row(RUN), log.feed(0))
    with pytest.raises(kind):
        call()
    assert (log.read(RUN), log.row(RUN), log.feed(0)) == before


# --- A run begins --------------------------------------------------------------------------------


def test_a_new_run_is_there_as_a_whole(log: EventStore) -> None:
    appended = new(log)

    assert 1 == appended.version
    assert [event.id for event in appended.events] == ["new.0"]
    assert log.read(RUN) == list(appended.events)
    row = Row(1, "open", row_digest(log, RUN, "input-1"))
    assert log.row(RUN) == row
    assert dict(log.runs()) == {RUN: row}
    assert isinstance(log.claim(RUN, RUN_TASK, "t", LEASE_MS), Claimed)


def test_the_same_request_again_is_the_same_run(log: EventStore) -> None:
    """EXISTS with an equal digest: whoever asks twice gets one run."""
    new(log)

    again = new(log, op="other")

    assert again.repeated
    assert () == again.events
    assert 1 == len(log.read(RUN))


def test_another_request_of_the_same_id_is_refused(log: EventStore) -> None:
    """EXISTS with another digest."""
    new(log)

    refused(log, RunExists, lambda: new(log, op="other", digest="input-2"))


def test_an_archived_run_does_not_run_again(subject: Any, log: EventStore) -> None:
    """Failure closed: a row that went with its stream would let an archived id run again."""
    new(log)
    subject.archive(RUN)

    assert new(log, op="later").repeated
    refused(log, RunExists, lambda: new(log, op="later", digest="input-2"))
    assert "archived" == log.row(RUN).phase


# --- Repeated calls ------------------------------------------------------------------------------


def test_a_task_append_whose_reply_was_lost_is_known(log: EventStore) -> None:
    """DUP comes first: a retry after a lost reply must not conflict with itself (STALE)."""
    new(log)
    claim = held(log)
    first = add(log, by(claim), "op1")

    again = add(log, by(claim), "op1")

    assert (True, first.version, ()) == (again.repeated, again.version, again.events)
    assert 2 == len(log.read(RUN))


def test_a_repeat_moves_no_task_again(log: EventStore) -> None:
    new(log)
    claim = held(log)
    append = (by(claim), "op1", Move(NODE_TASK, "ready"), Move(RUN_TASK, "wait"))
    add(log, *append)
    node = held(log, NODE_TASK, "n1")
    add(log, by(node), "op2", Move(NODE_TASK, "end"), Move(RUN_TASK, "wake"))

    assert add(log, *append).repeated
    assert NotClaimed("GONE") == log.claim(RUN, NODE_TASK, "n2", LEASE_MS)
    assert 1 == held(log, token="t2").inbox


def test_a_repeat_by_a_holder_that_was_fenced_since_is_still_known(log: EventStore) -> None:
    new(log)
    claim = held(log)
    add(log, by(claim), "op1", Move(RUN_TASK, "timer", 0))
    held(log, token="t2")

    assert add(log, by(claim), "op1", Move(RUN_TASK, "timer", 0)).repeated


def test_a_repeated_closing_append_is_known_though_its_task_is_gone(log: EventStore) -> None:
    new(log)
    claim = close(log)

    fact = RunCompleted(output=Payload.of(1))
    again = add(log, by(claim), "closing", Move(RUN_TASK, "end"), fact=fact, phase="closed")

    assert again.repeated
    assert 2 == len(log.read(RUN))


def test_a_late_receipt_does_not_close_a_run_again(log: EventStore) -> None:
    new(log)
    claim = close(log)
    late = ToolSucceeded(call_id="c1", result=Payload.of(1))
    add(log, AsFact("c1", receipt=True), "late", fact=late, phase="closed")

    fact = RunCompleted(output=Payload.of(1))
    again = add(log, by(claim), "closing", Move(RUN_TASK, "end"), fact=fact, phase="closed")
    assert again.repeated


def test_a_persons_append_whose_reply_was_lost_is_known_after_others(log: EventStore) -> None:
    """DUP before CONFLICT, however far the run has gone on since."""
    new(log)
    add(log, ByVersion(1), "person", fact=RunResumed())
    add(log, by(held(log)), "op1")

    assert add(log, ByVersion(1), "person", fact=RunResumed()).repeated


def test_a_fact_is_known_again_after_other_facts(log: EventStore) -> None:
    """Failure closed: one last op a run forgot a fact as soon as another came."""
    new(log)
    wake(log, key="first", op="a")
    wake(log, key="second", op="b")
    wake(log, key="third", op="c")

    wake(log, key="first", op="a")

    assert 4 == len(log.read(RUN))
    assert 3 == held(log).inbox


def test_a_fact_of_another_operation_is_taken(log: EventStore) -> None:
    """Two people answer: both answers are in the log, and folds take the first."""
    new(log)
    wake(log, key="question", op="a")

    wake(log, key="question", op="b")

    assert 3 == len(log.read(RUN))


def test_the_memory_of_facts_is_bounded(log: EventStore) -> None:
    """The hundred newest keys are known again; what is older is left to the folds."""
    new(log)
    for number in range(101):
        wake(log, key=f"k{number}", op=f"op{number}")

    wake(log, key="k1", op="op1")
    assert 102 == len(log.read(RUN))
    wake(log, key="k0", op="op0")
    assert 103 == len(log.read(RUN))


# --- Refusals ------------------------------------------------------------------------------------


def test_an_append_to_no_run_is_refused(log: EventStore) -> None:
    """GONE, as whoever it comes."""
    writers: list[Writer] = [ByTask(RUN_TASK, "t", "", 0), ByVersion(0), AsFact("k")]
    for writer in writers:
        with pytest.raises(RunUnknown):
            add(log, writer, "op1")
    assert [] == log.read(RUN)


def test_another_token_is_fenced(log: EventStore) -> None:
    """FENCED: a worker paused beyond its lease finds out at its next append."""
    new(log)
    claim = held(log)

    thief = msgspec.structs.replace(by(claim), token="t2")
    refused(log, LeaseFenced, lambda: add(log, thief, "op1"))


def test_a_task_that_has_ended_is_fenced(log: EventStore) -> None:
    """FENCED without a record."""
    new(log)
    add(log, by(held(log)), "op1", Move(NODE_TASK, "ready"))
    node = held(log, NODE_TASK, "n1")
    add(log, by(node), "op2", Move(NODE_TASK, "end"))

    refused(log, LeaseFenced, lambda: add(log, by(node), "op3"))


def test_a_released_task_is_fenced_even_without_a_token(log: EventStore) -> None:
    """FENCED: an empty token holds nothing, though a released record's token is empty."""
    new(log)
    claim = held(log)
    add(log, by(claim), "op1", Move(RUN_TASK, "wait"))

    refused(log, LeaseFenced, lambda: add(log, ByTask(RUN_TASK, "", "op1", 0), "op2"))
    refused(log, LeaseFenced, lambda: add(log, ByTask(RUN_TASK, "t1", "op1", 0), "op2"))


def test_a_holder_that_missed_an_operation_is_stale(log: EventStore) -> None:
    """STALE."""
    new(log)
    claim = held(log)
    add(log, by(claim), "op1")

    refused(log, OperationStale, lambda: add(log, by(claim), "op2"))


@pytest.mark.parametrize("to", ["timer", "wait", "end"])
def test_a_release_is_refused_once_something_arrived(log: EventStore, to: str) -> None:
    """
    DIRTY: an answer that arrives between decision and release would be lost, since a wake of a
    leased task makes nothing ready.
    """
    new(log)
    claim = held(log)
    wake(log)

    refused(log, InboxMoved, lambda: add(log, by(claim), "op1", Move(RUN_TASK, to)))
    with pytest.raises(InboxMoved) as caught:
        add(log, by(claim), "op1", Move(RUN_TASK, to))
    assert 1 == caught.value.inbox
    seen = msgspec.structs.replace(by(claim), inbox=1)
    assert 3 == add(log, seen, "op2", Move(RUN_TASK, to)).version


def test_an_intent_is_refused_once_something_arrived(log: EventStore) -> None:
    """DIRTY: a cancellation that arrives before the intent stops it."""
    new(log)
    claim = held(log)
    wake(log)

    intent = ToolStarted(call_id="c", execution=1)
    refused(log, InboxMoved, lambda: add(log, by(claim, intent=True), "op1", fact=intent))
    assert 3 == add(log, by(claim), "op2").version  # an outcome is taken all the same


def test_a_persons_append_at_another_version_conflicts(log: EventStore) -> None:
    """CONFLICT."""
    new(log)
    add(log, by(held(log)), "op1")

    refused(log, VersionConflict, lambda: add(log, ByVersion(1), "op2", fact=RunResumed()))
    assert 3 == add(log, ByVersion(2), "op2", fact=RunResumed()).version


def test_a_closed_run_takes_nothing_but_receipts(log: EventStore) -> None:
    """CLOSED; late truth is recorded all the same."""
    new(log)
    add(log, by(held(log)), "op1", Move(NODE_TASK, "ready"))
    node = held(log, NODE_TASK, "n1")
    add(log, ByTask(RUN_TASK, "t1", "op1", 0), "op2", Move(RUN_TASK, "end"), phase="closed")

    late = ToolSucceeded(call_id="c1", result=Payload.of(1))
    refused(log, RunClosed, lambda: add(log, by(node), "op3", fact=late))
    refused(log, RunClosed, lambda: add(log, AsFact("c1"), "op3", fact=late))
    refused(log, RunClosed, lambda: add(log, ByVersion(3), "op3", fact=RunResumed()))
    assert 4 == add(log, AsFact("c1", receipt=True), "op3", fact=late).version
    assert add(log, AsFact("c1", receipt=True), "op3", fact=late).repeated
    assert "closed" == log.row(RUN).phase


def test_an_archived_run_takes_not_even_receipts(subject: Any, log: EventStore) -> None:
    """CLOSED: its stream is in a file."""
    new(log)
    claim = close(log)
    subject.archive(RUN)

    late = ToolSucceeded(call_id="c1", result=Payload.of(1))
    refused(log, RunClosed, lambda: add(log, AsFact("c1", receipt=True), "op3", fact=late))
    refused(log, RunClosed, lambda: add(log, by(claim), "op3"))


def test_a_cancelling_run_lets_only_its_own_task_append(log: EventStore) -> None:
    """CLOSED for the nodes; the run's task records what is missing and closes."""
    new(log)
    claim = held(log)
    add(log, by(claim), "op1", Move(NODE_TASK, "ready"))
    node = held(log, NODE_TASK, "n1")
    cancel(log)

    refused(log, RunClosed, lambda: add(log, by(node), "op2"))
    refused(log, RunClosed, lambda: add(log, ByVersion(3), "op2", fact=RunResumed()))
    late = ToolSucceeded(call_id="c1", result=Payload.of(1))
    assert 4 == add(log, AsFact("c1", receipt=True), "op2", fact=late).version
    own = ByTask(RUN_TASK, "t1", "op1", 1)
    assert 5 == add(log, own, "op3", Move(RUN_TASK, "end"), phase="closed").version
    assert "closed" == log.row(RUN).phase


def test_a_second_cancellation_changes_nothing_more(log: EventStore) -> None:
    new(log)

    assert 2 == cancel(log).version
    assert cancel(log).repeated
    assert 3 == cancel(log, op="cancel-2").version
    assert "cancelling" == log.row(RUN).phase


# --- Taking a lease along -----------------------------------------------------------------------


def handed_over(log: EventStore, op: str = "over", **changes: Any) -> Append:
    """The node's holder ends its task and goes on with the run's."""
    new(log, moves=(Move(RUN_TASK, "ready"), Move(NODE_TASK, "ready")))
    append = Append(
        run=RUN,
        op=op,
        writer=by(held(log, NODE_TASK)),
        events=(NewEvent(RunStarted()),),
        moves=(Move(RUN_TASK, "wake", 60_000), Move(NODE_TASK, "end")),
        take=Take(RUN_TASK, "t9", LEASE_MS),
    )
    return msgspec.structs.replace(append, **changes)


def waits(log: EventStore, task: str = RUN_TASK) -> None:
    """The run's task has nothing to do for now."""
    claim = held(log, task, "w1")
    release = Append(run=RUN, op="w", writer=by(claim), events=(), moves=(Move(task, "wait"),))
    log.append(release)


def test_who_lets_go_takes_a_lease_along(log: EventStore) -> None:
    append = handed_over(log)
    waits(log)

    taken = log.append(append).taken

    assert taken is not None
    assert (RUN_TASK, "t9", 2, 1, 0) == (
        taken.task, taken.token, taken.version, taken.inbox, taken.claims,
    )  # fmt: skip
    assert NotClaimed("BUSY") == log.claim(RUN, RUN_TASK, "t2", LEASE_MS)
    assert 3 == add(log, by(taken), "op2", Move(RUN_TASK, "wait")).version


def test_a_lease_on_a_new_task_is_taken_along(log: EventStore) -> None:
    other = "r1/n:other"
    append = handed_over(log)
    moves = (Move(other, "ready", 60_000), Move(NODE_TASK, "end"))

    taken = log.append(
        msgspec.structs.replace(append, moves=moves, take=Take(other, "t9", LEASE_MS))
    ).taken

    assert taken is not None
    assert 0 == taken.inbox
    assert NotClaimed("BUSY") == log.claim(RUN, other, "t2", LEASE_MS)


def test_an_append_that_took_a_lease_along_is_known_again(log: EventStore) -> None:
    """Its own task has ended: a lost answer would look like a lost lease, and nobody go on."""
    append = handed_over(log)
    waits(log)
    first = log.append(append)

    again = log.append(append)

    assert again.repeated
    assert again.taken is not None
    assert (first.taken and first.taken.token) == again.taken.token
    assert 2 == log.row(RUN).version


def test_a_task_that_another_holds_is_woken_and_not_taken_along(log: EventStore) -> None:
    append = handed_over(log)
    holder = held(log)

    assert log.append(append).taken is None
    refused(log, InboxMoved, lambda: add(log, by(holder), "op2", Move(RUN_TASK, "wait")))


def test_a_lease_that_is_taken_along_again_and_again_is_poison(
    subject: Any, log: EventStore
) -> None:
    """A lease taken along counts as a claim, or a task that kills its workers does so for ever."""
    append = handed_over(log)
    for number in range(MAX_CLAIMS):
        held(log, token=f"t{number}")
        subject.pass_time(LEASE_MS + 1)
        log.sweep()

    taken = log.append(msgspec.structs.replace(append, writer=by(held(log, NODE_TASK)))).taken

    assert taken is not None
    assert taken.poison


def test_a_cancelling_run_hands_out_no_leases(log: EventStore) -> None:
    new(log)
    claim = held(log)
    cancel(log)
    taken = log.append(
        Append(
            run=RUN,
            op="op1",
            writer=msgspec.structs.replace(by(claim), inbox=1),
            events=(),
            moves=(Move(NODE_TASK, "ready"), Move(RUN_TASK, "wait")),
            take=Take(NODE_TASK, "t9", LEASE_MS),
        )
    ).taken

    assert taken is None


def test_what_is_decided_for_others_holds_for_one_version(log: EventStore) -> None:
    """Of two nodes that end at once each would miss the other's end, and a join never begin."""
    append = handed_over(log, as_of=1)
    waits(log)
    add(log, AsFact("k"), "fact")

    refused(log, InboxMoved, lambda: log.append(append))
    assert log.append(msgspec.structs.replace(append, as_of=2)).taken is not None


@pytest.mark.parametrize("state", ["ready", "leased", "timer"])
def test_nothing_is_decided_for_a_runs_task_that_is_not_waiting(
    log: EventStore, state: str
) -> None:
    """It may be deciding the same, or has been told something that it has to look at."""
    append = handed_over(log, as_of=1)
    if state != "ready":
        claim = held(log)
    if state == "timer":
        timer = Move(RUN_TASK, "timer", 60_000)
        log.append(Append(run=RUN, op="w", writer=by(claim), events=(), moves=(timer,)))

    refused(log, InboxMoved, lambda: log.append(append))


@pytest.mark.parametrize(
    "changes",
    [
        {"moves": (Move(RUN_TASK, "wake"),)},
        {"moves": (Move(NODE_TASK, "end"),)},
        {"take": Take(RUN_TASK, "", LEASE_MS)},
        {"take": Take(RUN_TASK, "t9", 0)},
        {"take": Take(NODE_TASK, "t9", LEASE_MS)},
        {"take": Take("r2/", "t9", LEASE_MS)},
        {"take": None, "as_of": 1, "moves": (Move(RUN_TASK, "wake"),)},
        {"phase": "closed"},
    ],
)
def test_a_lease_that_can_not_be_taken_along_is_refused(
    log: EventStore, changes: dict[str, Any]
) -> None:
    append = handed_over(log, **changes)

    with pytest.raises(ValueError, match=r"task|lets go"):
        log.append(append)
    assert 1 == log.row(RUN).version


# --- What makes no sense -------------------------------------------------------------------------


def test_an_append_takes_a_thousand_events_and_no_more(log: EventStore) -> None:
    """Failure closed: Lua's unpack fails at 8,000, and 50,000 hold the server up."""
    new(log)
    events = (NewEvent(RunStarted()),) * (MAX_EVENTS_PER_APPEND + 1)
    with pytest.raises(ValueError, match="1001 events"):
        log.append(Append(run=RUN, op="op1", writer=by(held(log)), events=events))
    assert log.row(RUN).version == 1


def test_a_new_run_may_begin_as_a_copy_of_a_long_one(log: EventStore) -> None:
    events = (NewEvent(RunStarted()),) * (MAX_EVENTS_OF_NEW_RUN + 1)
    with pytest.raises(ValueError, match="10001 events"):
        log.append(Append(run=RUN, op="new", writer=AsNew("d"), events=events))
    assert log.row(RUN) is None
    log.append(Append(run=RUN, op="new", writer=AsNew("d"), events=events[1:]))
    assert log.row(RUN).version == MAX_EVENTS_OF_NEW_RUN


def test_an_append_does_something(log: EventStore) -> None:
    new(log)
    claim = held(log)
    with pytest.raises(ValueError, match="neither events nor moves"):
        log.append(Append(run=RUN, op="op1", writer=by(claim), events=()))


def test_a_run_begins_with_an_event(log: EventStore) -> None:
    """A run at version 0 would be in the index and nowhere else."""
    moves = (Move(RUN_TASK, "ready"),)
    with pytest.raises(ValueError, match="begins with an event"):
        log.append(Append(run=RUN, op="new", writer=AsNew("d"), events=(), moves=moves))
    assert log.row(RUN) is None


def test_a_task_woken_for_nothing_releases_itself_without_an_event(log: EventStore) -> None:
    new(log)
    claim = held(log)
    release = Append(
        run=RUN, op="op1", writer=by(claim), events=(), moves=(Move(RUN_TASK, "wait"),)
    )

    appended = log.append(release)

    assert (1, (), False) == (appended.version, appended.events, appended.repeated)
    assert log.append(release).repeated
    assert 1 == len(log.read(RUN)) == len(log.feed(0))
    assert NotClaimed("IDLE") == log.claim(RUN, RUN_TASK, "t2", LEASE_MS)


def test_a_release_without_an_event_is_refused_once_something_arrived(log: EventStore) -> None:
    """DIRTY, as for any release."""
    new(log)
    claim = held(log)
    wake(log)
    moves = (Move(RUN_TASK, "wait"),)

    release = Append(run=RUN, op="op1", writer=by(claim), events=(), moves=moves)
    refused(log, InboxMoved, lambda: log.append(release))


def test_a_thousand_events_are_one_append(log: EventStore) -> None:
    events = (NewEvent(RunStarted()),) * MAX_EVENTS_PER_APPEND
    appended = log.append(Append(run=RUN, op="new", writer=AsNew("d"), events=events))

    assert MAX_EVENTS_PER_APPEND == appended.version
    assert list(appended.events) == log.read(RUN)
    assert [(1000, 1000)] == [(entry.version, entry.count) for entry in log.feed(0)]


@pytest.mark.parametrize(
    "moves",
    [
        (Move(NODE_TASK, "wait"),),
        (Move("r2/", "wake"),),
        (Move(RUN_TASK, "timer", -1),),
        (Move(RUN_TASK, "keep", 1), Move(RUN_TASK, "wait")),
        (Move("nonsense", "wake"),),
    ],
)
def test_moves_that_make_no_sense_are_refused(log: EventStore, moves: tuple[Move, ...]) -> None:
    new(log)
    claim = held(log)

    with pytest.raises(ValueError, match="task"):
        add(log, by(claim), "op1", *moves)
    assert 1 == log.row(RUN).version


def test_only_a_tasks_holder_releases_it(log: EventStore) -> None:
    new(log)
    with pytest.raises(ValueError, match="only its own holder"):
        add(log, ByVersion(1), "op1", Move(RUN_TASK, "end"))


@pytest.mark.parametrize("run", ["", "a b", "a/b", "a|b", "a{b", "a}b", "a\nb"])
def test_names_that_could_not_be_read_back_are_refused(log: EventStore, run: str) -> None:
    with pytest.raises(ValueError, match="not a run id"):
        new(log, run=run)


def test_other_names_that_could_not_be_read_back_are_refused(log: EventStore) -> None:
    new(log)
    with pytest.raises(ValueError, match="not an operation id"):
        add(log, AsFact("k"), "a|b")
    with pytest.raises(ValueError, match="not a fact's key"):
        add(log, AsFact("a\nb"), "op1")
    with pytest.raises(ValueError, match="not a token"):
        log.claim(RUN, RUN_TASK, "a|b", LEASE_MS)
    with pytest.raises(ValueError, match="not of run"):
        log.claim("r2", RUN_TASK, "t1", LEASE_MS)


# --- Leases --------------------------------------------------------------------------------------


def test_a_claim_tells_what_its_holder_needs(log: EventStore) -> None:
    new(log)
    add(log, by(held(log)), "op1", Move(RUN_TASK, "timer", 0))
    wake(log)

    claim = held(log, token="t2")

    assert ("t2", 3, "open", "op1", 1, 0, False) == (
        claim.token,
        claim.version,
        claim.phase,
        claim.op,
        claim.inbox,
        claim.claims,
        claim.poison,
    )


def test_one_of_two_workers_gets_the_lease(log: EventStore) -> None:
    new(log)

    held(log, token="t1")

    assert NotClaimed("BUSY") == log.claim(RUN, RUN_TASK, "t2", LEASE_MS)


def test_one_of_many_threads_gets_the_lease(log: EventStore) -> None:
    new(log)
    with ThreadPoolExecutor(8) as pool:
        answers = pool.map(lambda n: log.claim(RUN, RUN_TASK, f"t{n}", LEASE_MS), range(40))

    assert 1 == sum(isinstance(answer, Claimed) for answer in answers)


def test_a_repeated_claim_is_the_same_lease(subject: Any, log: EventStore) -> None:
    """It counts no lost lease, and holds as long as its caller believes: from the repeat on."""
    new(log)
    held(log)
    subject.pass_time(LEASE_MS - 1_000)

    again = held(log)
    subject.pass_time(LEASE_MS - 1_000)

    assert 0 == again.claims
    assert NotClaimed("BUSY") == log.claim(RUN, RUN_TASK, "t2", LEASE_MS)


def test_no_task_is_gone(log: EventStore) -> None:
    new(log)

    assert NotClaimed("GONE") == log.claim(RUN, NODE_TASK, "t", LEASE_MS)
    assert NotClaimed("GONE") == log.claim("r2", "r2/", "t", LEASE_MS)


def test_a_task_of_a_closed_run_is_gone_and_removed(subject: Any, log: EventStore) -> None:
    new(log)
    claim = held(log)
    add(log, by(claim), "op1", Move(NODE_TASK, "ready"))
    add(log, ByTask(RUN_TASK, "t1", "op1", 0), "op2", Move(RUN_TASK, "end"), phase="closed")

    assert NotClaimed("GONE") == log.claim(RUN, NODE_TASK, "n1", LEASE_MS)
    subject.pass_time(60_000)
    assert () == log.sweep().tasks


def test_a_waiting_task_is_idle(log: EventStore) -> None:
    new(log)
    add(log, by(held(log)), "op1", Move(RUN_TASK, "wait"))

    assert NotClaimed("IDLE") == log.claim(RUN, RUN_TASK, "t2", LEASE_MS)
    wake(log)
    assert 1 == held(log, token="t2").inbox


def test_a_doubled_message_does_not_break_retry_after(subject: Any, log: EventStore) -> None:
    """EARLY: a timer is over when its time is, however many messages come."""
    new(log)
    add(log, by(held(log)), "op1", Move(RUN_TASK, "timer", 30_000))

    for _ in range(3):
        assert NotClaimed("EARLY") == log.claim(RUN, RUN_TASK, "t2", LEASE_MS)
    subject.pass_time(29_000)
    assert () == log.sweep().tasks
    assert NotClaimed("EARLY") == log.claim(RUN, RUN_TASK, "t2", LEASE_MS)
    subject.pass_time(1_000)
    held(log, token="t2")


def test_a_wake_ends_a_timer(log: EventStore) -> None:
    """A cancellation does not wait for a backoff."""
    new(log)
    add(log, by(held(log)), "op1", Move(RUN_TASK, "timer", 30_000))

    cancel(log)

    assert "cancelling" == held(log, token="t2").phase


def test_a_lease_that_ran_out_is_still_its_holders(subject: Any, log: EventStore) -> None:
    """Failure closed: expiry alone must not refuse what nobody else has begun."""
    new(log)
    claim = held(log)
    subject.pass_time(LEASE_MS * 2)

    assert 2 == add(log, by(claim), "op1").version
    assert (RUN_TASK,) == log.sweep().tasks
    assert 3 == add(log, ByTask(RUN_TASK, "t1", "op1", 0), "op2").version


def test_a_lease_that_another_took_is_fenced(subject: Any, log: EventStore) -> None:
    """Swept, then claimed: the earlier holder is out, the new one goes on."""
    new(log)
    claim = held(log)
    subject.pass_time(LEASE_MS)
    assert (RUN_TASK,) == log.sweep().tasks
    successor = held(log, token="t2")

    refused(log, LeaseFenced, lambda: add(log, by(claim), "op1"))
    assert {RUN_TASK: None} == log.renew([Held(RUN, RUN_TASK, "t1")], LEASE_MS)
    assert not log.give_back(Held(RUN, RUN_TASK, "t1"))
    assert 2 == add(log, by(successor), "op2").version


def test_a_lease_that_ran_out_is_taken_without_a_sweep(subject: Any, log: EventStore) -> None:
    new(log)
    held(log)
    subject.pass_time(LEASE_MS)

    assert 1 == held(log, token="t2").claims


def test_an_append_may_renew_its_lease(subject: Any, log: EventStore) -> None:
    new(log)
    claim = held(log)
    subject.pass_time(LEASE_MS - 1_000)
    add(log, by(claim), "op1", Move(RUN_TASK, "keep", LEASE_MS))
    subject.pass_time(LEASE_MS - 1_000)

    assert NotClaimed("BUSY") == log.claim(RUN, RUN_TASK, "t2", LEASE_MS)


def test_a_task_created_again_is_woken(log: EventStore) -> None:
    """A `ready` that were without effect on a waiting task would leave it waiting for ever."""
    new(log)
    add(log, by(held(log)), "op1", Move(NODE_TASK, "ready"))
    add(log, by(held(log, NODE_TASK, "n1")), "op2", Move(NODE_TASK, "wait"))

    add(log, ByTask(RUN_TASK, "t1", "op1", 0), "op3", Move(NODE_TASK, "ready"))

    assert 1 == held(log, NODE_TASK, "n2").inbox


def test_a_wake_of_no_task_does_nothing(log: EventStore) -> None:
    new(log)
    wake(log, NODE_TASK)

    assert NotClaimed("GONE") == log.claim(RUN, NODE_TASK, "n1", LEASE_MS)


# --- Poison --------------------------------------------------------------------------------------


def lose_leases(subject: Any, log: EventStore, count: int) -> None:
    for number in range(count):
        held(log, token=f"lost{number}")
        subject.pass_time(LEASE_MS)


def test_a_task_that_lost_five_leases_is_poison(subject: Any, log: EventStore) -> None:
    """A message that kills its worker would loop for ever."""
    new(log)
    lose_leases(subject, log, MAX_CLAIMS - 1)
    assert not held(log, token="fifth").poison
    subject.pass_time(LEASE_MS)

    claim = held(log, token="sixth")

    assert (True, MAX_CLAIMS) == (claim.poison, claim.claims)
    add(log, by(claim), "parked", Move(RUN_TASK, "wait"))
    wake(log)
    assert (False, 0) == ((again := held(log, token="redriven")).poison, again.claims)


def test_a_join_over_six_nodes_is_not_poison(log: EventStore) -> None:
    """Failure closed: counting claims, not losses, took a healthy join for poison."""
    new(log)
    op = ""
    for number in range(8):
        claim = held(log, token=f"t{number}")
        assert (False, 0) == (claim.poison, claim.claims)
        op = f"op{number}"
        add(log, by(claim), op, Move(RUN_TASK, "wait"))
        wake(log, key=f"node{number}", op=f"wake{number}")


def test_a_wake_does_not_forgive_lost_leases(subject: Any, log: EventStore) -> None:
    new(log)
    lose_leases(subject, log, 3)
    wake(log)

    assert 3 == held(log).claims


@pytest.mark.parametrize("to", ["timer", "wait"])
def test_a_release_forgives_lost_leases(subject: Any, log: EventStore, to: str) -> None:
    new(log)
    lose_leases(subject, log, 3)
    add(log, by(held(log)), "op1", Move(RUN_TASK, to))
    wake(log)

    assert 0 == held(log, token="t2").claims


def test_a_lease_given_back_is_not_lost(subject: Any, log: EventStore) -> None:
    new(log)
    lose_leases(subject, log, 3)
    for number in range(MAX_CLAIMS + 2):
        claim = held(log, token=f"t{number}")
        assert log.give_back(Held(RUN, RUN_TASK, claim.token))
        assert (0 if number else 3) == claim.claims

    assert 0 == held(log).claims


# --- Renewal and return --------------------------------------------------------------------------


def test_a_renewed_lease_holds_on(subject: Any, log: EventStore) -> None:
    new(log)
    held(log)
    for _ in range(3):
        subject.pass_time(LEASE_MS - 1_000)
        renewed = log.renew([Held(RUN, RUN_TASK, "t1")], LEASE_MS)
        assert {RUN_TASK: Renewed(0, "open")} == renewed

    assert NotClaimed("BUSY") == log.claim(RUN, RUN_TASK, "t2", LEASE_MS)


def test_renewal_carries_news(log: EventStore) -> None:
    """Whoever works a task learns of a wake-up and of a cancellation within a renewal."""
    new(log)
    held(log)
    cancel(log)

    assert {RUN_TASK: Renewed(1, "cancelling")} == log.renew([Held(RUN, RUN_TASK, "t1")], LEASE_MS)


def test_renewal_takes_a_swept_task_back(subject: Any, log: EventStore) -> None:
    """Nobody else had it, so nothing is lost but the time."""
    new(log)
    held(log)
    subject.pass_time(LEASE_MS)
    log.sweep()

    assert {RUN_TASK: Renewed(0, "open")} == log.renew([Held(RUN, RUN_TASK, "t1")], LEASE_MS)
    assert NotClaimed("BUSY") == log.claim(RUN, RUN_TASK, "t2", LEASE_MS)


def test_many_leases_are_renewed_at_once(log: EventStore) -> None:
    new(log)
    add(log, by(held(log)), "op1", Move(NODE_TASK, "ready"))
    held(log, NODE_TASK, "n1")
    leases = [Held(RUN, RUN_TASK, "t1"), Held(RUN, NODE_TASK, "n1"), Held("r2", "r2/", "x")]

    renewed = log.renew(leases, LEASE_MS)

    assert {RUN_TASK: Renewed(0, "open"), NODE_TASK: Renewed(0, "open"), "r2/": None} == renewed
    assert {} == log.renew([], LEASE_MS)


def test_a_released_task_is_not_renewed(log: EventStore) -> None:
    new(log)
    add(log, by(held(log)), "op1", Move(RUN_TASK, "wait"))

    assert {RUN_TASK: None} == log.renew([Held(RUN, RUN_TASK, "t1")], LEASE_MS)
    assert {RUN_TASK: None} == log.renew([Held(RUN, RUN_TASK, "")], LEASE_MS)


def test_a_lease_given_back_is_taken_at_once(log: EventStore) -> None:
    new(log)
    held(log)

    assert log.give_back(Held(RUN, RUN_TASK, "t1"))
    assert not log.give_back(Held(RUN, RUN_TASK, "t1"))
    assert (RUN_TASK,) == log.sweep().tasks
    held(log, token="t2")


def test_a_cancelling_run_lets_a_live_holder_be(subject: Any, log: EventStore) -> None:
    """Its tool is awaited up to the time-out; a message for it must not take its task away."""
    new(log)
    add(log, by(held(log)), "op1", Move(NODE_TASK, "ready"))
    held(log, NODE_TASK, "n1")
    cancel(log)

    assert NotClaimed("BUSY") == log.claim(RUN, NODE_TASK, "n2", LEASE_MS)
    assert {NODE_TASK: Renewed(0, "cancelling")} == log.renew(
        [Held(RUN, NODE_TASK, "n1")], LEASE_MS
    )
    subject.pass_time(LEASE_MS)
    assert NotClaimed("GONE") == log.claim(RUN, NODE_TASK, "n2", LEASE_MS)


# --- Reconciling ---------------------------------------------------------------------------------


def test_a_sweep_answers_what_is_due_once_a_resend(subject: Any, log: EventStore) -> None:
    """A lost message is sent again; a crowd of sweepers sends it once."""
    new(log)

    assert (RUN_TASK,) == log.sweep(resend_ms=2_000).tasks
    assert () == log.sweep(resend_ms=2_000).tasks
    subject.pass_time(2_000)
    assert (RUN_TASK,) == log.sweep(resend_ms=2_000).tasks


def test_a_sweep_makes_a_lost_lease_claimable(subject: Any, log: EventStore) -> None:
    """Failure closed: a sweep that only pushes the score leaves every claim busy, for ever."""
    new(log)
    held(log)
    subject.pass_time(LEASE_MS)
    log.sweep(resend_ms=60_000)

    held(log, token="t2")


def test_a_sweep_tells_the_time_of_every_partition(subject: Any, log: EventStore) -> None:
    """By which workers see whether a server's clock was set."""
    new(log)
    claimed_ms = held(log).now_ms
    subject.pass_time(2_000)

    times = log.sweep().now_ms

    assert log.partitions() == len(times)
    assert all(0 <= time_ms - claimed_ms < 60_000 for time_ms in times)


def test_a_sweep_tells_when_the_next_is_due(subject: Any, log: EventStore) -> None:
    assert log.sweep().next_in_ms is None
    new(log)
    held(log)

    next_in_ms = log.sweep().next_in_ms

    assert next_in_ms is not None
    assert LEASE_MS - 5_000 < next_in_ms <= LEASE_MS


def test_a_sweep_is_bounded(log: EventStore) -> None:
    for number in range(5):
        new(log, run=f"r{number}", op=f"new{number}")

    swept = log.sweep(limit=3)

    assert (3, 0) == (len(swept.tasks), swept.next_in_ms)
    assert 2 == len(log.sweep(limit=3).tasks)


def test_a_sweep_lets_waiting_tasks_be(subject: Any, log: EventStore) -> None:
    new(log)
    add(log, by(held(log)), "op1", Move(RUN_TASK, "wait"))
    subject.pass_time(1_000_000)

    assert () == log.sweep().tasks


def test_a_new_task_has_its_grace(subject: Any, log: EventStore) -> None:
    """Its sender hints at once; the sweep comes in when that hint was lost."""
    new(log, moves=(Move(RUN_TASK, "ready", 5_000),))

    assert () == log.sweep().tasks
    subject.pass_time(5_000)
    assert (RUN_TASK,) == log.sweep().tasks


def test_an_audit_gives_a_lost_due_entry_back(subject: Any, log: EventStore) -> None:
    new(log)
    subject.lose_due_entry(RUN_TASK)
    assert () == log.sweep().tasks

    assert [RUN_TASK] == log.audit()
    assert (RUN_TASK,) == log.sweep().tasks
    assert [] == log.audit()


def test_an_audit_gives_a_stranded_run_its_task(subject: Any, log: EventStore) -> None:
    new(log)
    subject.lose_task(RUN_TASK)

    assert [RUN_TASK] == log.audit()
    assert "" == held(log).op
    assert [] == log.audit()


def test_an_audit_lets_the_healthy_be(log: EventStore) -> None:
    new(log)
    add(log, by(held(log)), "op1", Move(NODE_TASK, "ready"), Move(RUN_TASK, "wait"))
    new(log, run="r2", op="new2")
    log.claim("r2", "r2/", "x", LEASE_MS)
    ending = ByTask("r2/", "x", "", 0)
    done = NewEvent(RunCompleted(output=Payload.of(1)))
    log.append(
        Append(
            run="r2",
            op="end",
            writer=ending,
            events=(done,),
            moves=(Move("r2/", "end"),),
            phase="closed",
        )
    )

    assert [] == log.audit()


# --- Reads ---------------------------------------------------------------------------------------


def test_versions_have_no_gaps(log: EventStore) -> None:
    new(log)
    claim = held(log)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: wake(log, key=f"k{n}", op=f"op{n}"), range(40)))
    add(log, by(claim), "last")

    assert list(range(1, 43)) == [event.version for event in log.read(RUN)]


def test_read_goes_on_from_a_version(log: EventStore) -> None:
    new(log)
    wake(log, key="a", op="a")
    wake(log, key="b", op="b")

    assert [2, 3] == [event.version for event in log.read(RUN, 1)]
    assert [2] == [event.version for event in log.read(RUN, 1, limit=1)]
    assert [] == log.read(RUN, 3)
    assert [] == log.read("unknown")


def test_read_returns_more_than_a_page(log: EventStore) -> None:
    events = (NewEvent(RunStarted()),) * MAX_EVENTS_PER_APPEND
    log.append(Append(run=RUN, op="new", writer=AsNew("d"), events=events))
    wake(log)

    assert list(range(1, 1002)) == [event.version for event in log.read(RUN)]
    assert 1001 == len(log.read(RUN, limit=5_000))


def test_many_runs_are_read_each_from_its_version(log: EventStore) -> None:
    """More than are asked for at once; in the order asked for, those without any event too."""
    runs = [f"run{number}" for number in range(35)]
    for run in runs:
        two = (NewEvent(RunStarted()), NewEvent(RunStarted()))
        log.append(Append(run=run, op=f"new-{run}", writer=AsNew("d"), events=two))
    wanted = {"unknown": 0, **{run: number % 3 for number, run in enumerate(reversed(runs))}}

    found = dict(log.read_each(wanted))

    assert list(found) == list(wanted)
    for run, after in wanted.items():
        raw = found[run]
        assert isinstance(raw, list)
        assert [decode(run, *event, log.vault.key_named) for event in raw] == log.read(run, after)


@pytest.mark.parametrize("count", [99, 100, 101, MAX_EVENTS_PER_APPEND + 100])
def test_a_long_run_among_many_is_read_to_its_end(log: EventStore, count: int) -> None:
    short = (NewEvent(RunStarted()),)
    log.append(Append(run="short", op="new", writer=AsNew("d"), events=short))
    log.append(Append(run=RUN, op="new", writer=AsNew("d"), events=short * count))

    found = dict(log.read_each({RUN: 0, "short": 0}))

    assert [version for version, _, _ in found[RUN]] == list(range(1, count + 1))
    assert len(found["short"]) == 1


def test_who_stops_reading_many_runs_leaves_the_log_as_it_was(log: EventStore) -> None:
    new(log)

    for run, _ in log.read_each(dict.fromkeys([RUN, *map(str, range(40))], 0)):
        assert run == RUN
        break

    assert 1 == len(log.read(RUN))
    assert {RUN: 1} == {run: len(found) for run, found in log.read_each({RUN: 0})}


def test_an_event_that_is_none_holds_up_no_other_run(subject: Any, log: EventStore) -> None:
    new(log)
    subject.write_raw(RUN, b"\xff\xfe")
    log.append(Append(run="b", op="n", writer=AsNew("d"), events=(NewEvent(RunStarted()),)))

    found = dict(log.read_each({RUN: 1, "b": 0}))

    assert [(version, raw) for version, _, raw in found[RUN]] == [(2, b"\xff\xfe")]
    assert len(found["b"]) == 1


def test_an_event_keeps_what_it_was_given(log: EventStore) -> None:
    event = NewEvent(ToolStarted(call_id="c", execution=2), node="part[1]", attempt=3)
    log.append(
        Append(
            run=RUN,
            op="new",
            writer=AsNew("d"),
            events=(event, event),
            causation="cause.0",
            correlation="whole",
        )
    )

    first, second = log.read(RUN)
    assert ("new.0", "new.1") == (first.id, second.id)
    assert (1, "part[1]", 3, "cause.0", "whole", event.data) == (
        first.version,
        first.node,
        first.attempt,
        first.causation,
        first.correlation,
        first.data,
    )
    assert first.time_ms > 0


def test_large_payloads_lie_beside_the_log(log: EventStore) -> None:
    """Events stay small; the value is found by its digest."""
    large = "x" * INLINE_LIMIT_BYTES

    appended = new(log, value=large)

    stored = log.read(RUN)[0].data.input
    assert (stored.inline, stored) == (False, appended.events[0].data.input)
    assert canonical(large) == log.payload(RUN, stored.digest)
    assert Payload.of(large).digest == stored.digest


def test_a_large_optional_payload_lies_beside_the_log(log: EventStore) -> None:
    new(log)
    result = Payload.of("y" * 20_000)
    fact = EffectReconciled(call_id="c", outcome="succeeded", by="me", result=result)
    add(log, AsFact("c"), "op", fact=fact)

    assert not log.read(RUN)[1].data.result.inline
    assert canonical("y" * 20_000) == log.payload(RUN, result.digest)


def test_small_payloads_stay_in_their_events(log: EventStore) -> None:
    new(log, value={"q": "small"})

    assert {"q": "small"} == log.read(RUN)[0].data.input.value


def test_a_refused_append_leaves_no_payload(log: EventStore) -> None:
    new(log)
    large = Payload.of("z" * 20_000)
    fact = RunCompleted(output=large)
    refused(log, VersionConflict, lambda: add(log, ByVersion(7), "op1", fact=fact))

    with pytest.raises(EventUnreadable, match="missing"):
        log.payload(RUN, large.digest)


OVERSEER = "r1/o:collect.1"


def seal_one(log: EventStore, op: str = "seal", version: int = 1, **more: Any) -> Appended:
    sealed = (Sealed(OVERSEER, b"candidate", 60_000),)
    fields = {"writer": ByVersion(version), "events": (NewEvent(RunStarted()),), "sealed": sealed}
    return log.append(Append(**{"run": RUN, "op": op, **fields, **more}))


def test_a_candidate_lies_beside_the_log_for_a_while(subject: Any, log: EventStore) -> None:
    """OVR-10"""
    new(log)
    seal_one(log)

    assert b"candidate" == log.sealed(OVERSEER)
    assert log.sealed("r1/o:collect.2") is None
    subject.pass_time(30_000)
    assert b"candidate" == log.sealed(OVERSEER)
    subject.pass_time(30_000)
    assert log.sealed(OVERSEER) is None


def test_a_candidate_is_discarded_with_what_became_of_it(log: EventStore) -> None:
    new(log)
    seal_one(log)

    seal_one(log, "drop", 2, sealed=(), discarded=(OVERSEER, "r1/o:collect.9"))

    assert log.sealed(OVERSEER) is None


def test_a_refused_append_seals_nothing_and_discards_nothing(log: EventStore) -> None:
    new(log)
    refused(log, VersionConflict, lambda: seal_one(log, version=7))
    assert log.sealed(OVERSEER) is None

    seal_one(log)
    dropping: dict[str, Any] = {"sealed": (), "discarded": (OVERSEER,)}
    refused(log, VersionConflict, lambda: seal_one(log, "drop", 7, **dropping))
    assert b"candidate" == log.sealed(OVERSEER)


@pytest.mark.parametrize(
    "sealed", [Sealed(OVERSEER, b"", 0), Sealed("r2/o:collect.1", b"", 9)], ids=["ever", "other"]
)
def test_a_candidate_that_stays_for_ever_or_is_another_runs_is_refused(
    log: EventStore, sealed: Sealed
) -> None:
    new(log)
    with pytest.raises(ValueError, match="task 'r"):
        seal_one(log, sealed=(sealed,))


def test_a_spoilt_payload_is_told(subject: Any, log: EventStore) -> None:
    large = Payload.of("x" * 20_000)
    new(log, value="x" * 20_000)
    subject.spoil_payload(RUN, large.digest)

    with pytest.raises(EventUnreadable, match=large.digest):
        log.payload(RUN, large.digest)


def test_an_event_of_a_newer_version_is_told(subject: Any, log: EventStore) -> None:
    new(log)
    subject.write_raw(RUN, b'{"id":"x.0","type":"RunStarted","v":99,"data":{}}')

    with pytest.raises(EventUnreadable, match=r"event 2: RunStarted has shape 99.*upgrade"):
        log.read(RUN)
    assert 1 == len(log.read(RUN, limit=1))


def test_an_event_of_an_unknown_type_is_told(subject: Any, log: EventStore) -> None:
    new(log)
    subject.write_raw(RUN, b'{"id":"x.0","type":"RunTeleported","data":{}}')

    with pytest.raises(EventUnreadable, match="RunTeleported"):
        log.read(RUN)


@pytest.mark.parametrize("raw", [b"", b"\xff\xfe", b"[]", b'{"id":"x","type":"RunStarted"}'])
def test_an_unreadable_event_is_told(subject: Any, log: EventStore, raw: bytes) -> None:
    new(log)
    subject.write_raw(RUN, raw)

    with pytest.raises(EventUnreadable, match="event 2"):
        log.read(RUN)


def test_the_feed_names_every_append(log: EventStore) -> None:
    new(log)
    add(log, by(held(log)), "op1")
    new(log, run="r2", op="other")

    feed = log.feed(0)

    assert [(RUN, 1, 1), (RUN, 2, 1), ("r2", 1, 1)] == [(e.run, e.version, e.count) for e in feed]
    assert feed[1:] == log.feed(0, feed[0].id)
    assert feed[:1] == log.feed(0, limit=1)
    assert [] == log.feed(0, feed[-1].id)


def test_follow_returns_what_is_there(log: EventStore) -> None:
    new(log)

    assert [1] == [event.version for event in log.follow(RUN, 0, wait_ms=60_000)]


def test_follow_ends_when_nothing_comes(log: EventStore) -> None:
    new(log)

    assert [] == log.follow(RUN, 1, wait_ms=20)
    assert [] == log.follow("unknown", 0, wait_ms=20)


def in_background(call: Callable[[], object]) -> Callable[[], object]:
    """Begin the call in a thread; the returned function waits for its answer."""
    pool = ThreadPoolExecutor(1)
    begun = threading.Event()

    def work() -> object:
        begun.set()
        return call()

    answer = pool.submit(work)
    assert begun.wait(10)
    pool.shutdown(wait=False)
    return lambda: answer.result(30)


def test_follow_wakes_when_something_comes(log: EventStore) -> None:
    new(log)
    answer = in_background(lambda: log.follow(RUN, 1, wait_ms=20_000))
    wake(log)

    assert [2] == [event.version for event in answer()]


def test_the_feed_wakes_when_something_comes(log: EventStore) -> None:
    answer = in_background(lambda: log.feed(0, wait_ms=20_000))
    new(log)

    assert [RUN] == [entry.run for entry in answer()]


def test_no_row_of_no_run(log: EventStore) -> None:
    assert log.row("unknown") is None
    assert [] == list(log.runs())


# --- Projections' rows ---------------------------------------------------------------------------


def test_rows_and_checkpoint_are_set_together(log: EventStore) -> None:
    assert ("0", {}) == (log.checkpoint("run", 0), log.rows("run", 0))

    assert log.commit_rows("run", 0, expected="0", checkpoint="5-0", rows={"r1": b"a", "r2": b"b"})
    assert log.commit_rows("run", 0, expected="5-0", checkpoint="6-0", rows={"r1": b"c"})

    assert "6-0" == log.checkpoint("run", 0)
    assert {"r1": b"c", "r2": b"b"} == log.rows("run", 0)
    assert {"r2": b"b"} == log.rows("run", 0, ["r2", "unknown"])
    assert {} == log.rows("run", 0, [])
    assert ("0", {}) == (log.checkpoint("usage", 0), log.rows("usage", 0))


def test_more_rows_than_a_page_are_read_and_switched_whole(log: EventStore) -> None:
    many = {f"r{number}": b"%d" % number for number in range(1_500)}
    assert log.commit_rows("run~rebuilt", 0, expected="0", checkpoint="5-0", rows=many)
    assert log.commit_rows("run", 0, expected="0", checkpoint="4-0", rows={"old": b"x"})

    assert many == log.rows("run~rebuilt", 0)
    assert log.switch_rows("run~rebuilt", "run", 0, expected="5-0")
    assert ({}, many) == (log.rows("run~rebuilt", 0), log.rows("run", 0))
    log.drop_rows("run", 0)
    assert {} == log.rows("run", 0)


def test_rows_are_not_set_over_another_projectors(log: EventStore) -> None:
    """Two projectors do no harm: one of them reads again."""
    log.commit_rows("run", 0, expected="0", checkpoint="5-0", rows={"r1": b"a"})

    assert not log.commit_rows("run", 0, expected="0", checkpoint="4-0", rows={"r1": b"old"})
    assert ("5-0", {"r1": b"a"}) == (log.checkpoint("run", 0), log.rows("run", 0))
