"""
Whether the log tells of every request that a model's server received, and of no other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from mulligan.events.envelope import Envelope
from mulligan.events.facts import ModelInterrupted, ModelRequested
from mulligan.testing.scripted_model import ReceivedRequest

REQUEST_HEADER = "x-mulligan-request"


def unaccounted(
    received: Iterable[ReceivedRequest], histories: Iterable[Iterable[Envelope]]
) -> list[str]:
    """
    What is wrong between the requests that servers received and the histories of all that asked
    them; empty if nothing is. Requests that are not ours (without our header) do not count.

    Let S be the requests received, L the intents logged and I those of them that were interrupted,
    each as often as it is there. Then S ⊆ L ⊆ S + I: nothing is sent without its intent, and an
    intent that was not sent is one whose worker was lost in between. Where no worker was lost, I is
    empty and S = L.
    """
    sent = Counter(one.headers[REQUEST_HEADER] for one in received if REQUEST_HEADER in one.headers)
    logged: Counter[str] = Counter()
    interrupted: Counter[str] = Counter()
    for history in histories:
        for event in history:
            match event.data:
                case ModelRequested() as fact:
                    logged[fact.request_id] += 1
                case ModelInterrupted() as fact:
                    interrupted[fact.request_id] += 1
                case _:
                    pass
    return [
        *(f"{name} was sent without an intent" for name in (sent - logged).elements()),
        *(
            f"{name} was logged, not sent, and not interrupted"
            for name in (logged - sent - interrupted).elements()
        ),
    ]
