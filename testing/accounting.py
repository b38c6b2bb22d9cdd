"""
Whether the log tells of every request that a model's server received, and of no other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from mulligan.events.envelope import Envelope
from mulligan.events.facts import (
    ModelAnswered,
    ModelFailed,
    ModelInterrupted,
    ModelRequested,
    RunCancelled,
    RunForked,
)
from mulligan.testing.scripted_model import ReceivedRequest

REQUEST_HEADER = "x-mulligan-request"


def unaccounted(
    received: Iterable[ReceivedRequest], histories: Iterable[Iterable[Envelope]]
) -> list[str]:
    """
    What is wrong between the requests that servers received and the histories of all that asked
    them; empty if nothing is. Requests that are not ours (without our header) do not count.

    Let S be the requests received, L the intents logged and I those of them that were interrupted,
    or still open when their run was cancelled, each as often as it is there. Then S ⊆ L ⊆ S + I:
    nothing is sent without its intent, and an intent that was not sent is one whose worker was
    lost, or told of the cancellation, in between. Where there was neither, I is empty and S = L.
    """
    sent = Counter(one.headers[REQUEST_HEADER] for one in received if REQUEST_HEADER in one.headers)
    logged: Counter[str] = Counter()
    interrupted: Counter[str] = Counter()
    for history in histories:
        intents, lost = _intents(history)
        logged += intents
        interrupted += lost
    return [
        *(f"{name} was sent without an intent" for name in (sent - logged).elements()),
        *(
            f"{name} was logged, not sent, and not interrupted"
            for name in (logged - sent - interrupted).elements()
        ),
    ]


def _intents(history: Iterable[Envelope]) -> tuple[Counter[str], Counter[str]]:
    """The requests that a run, or a call, meant to send, and those that it may not have sent."""
    intents: Counter[str] = Counter()
    lost: Counter[str] = Counter()
    still_open: set[str] = set()
    for event in history:
        match event.data:
            case ModelRequested(request_id=name):
                intents[name] += 1
                still_open.add(name)
            case ModelInterrupted(request_id=name):
                lost[name] += 1
                still_open.discard(name)
            case ModelAnswered(request_id=name) | ModelFailed(request_id=name):
                still_open.discard(name)
            case RunCancelled():
                lost.update(still_open)
            case RunForked():  # what is before it, another run has sent
                intents.clear()
                lost.clear()
            case _:
                pass
    return intents, lost
