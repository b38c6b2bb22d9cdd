"""
Where a process tells of its spans: nowhere, unless it is set up to (`actors/otel.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from mulligan.events.envelope import Envelope
from mulligan.events.store import Appended
from mulligan.settings import Settings

if TYPE_CHECKING:
    from mulligan.actors.cache import Fold
    from mulligan.decisions.decision import Effect

ReadEvents = Callable[[str, int], list[Envelope]]
"""A run's events above a version."""


class Tracing:
    """What happens that a trace may tell of; here nothing comes of it. Safe for use by threads."""

    def appended(self, run: str, op: str, appended: Appended) -> None:
        """An append of ours is in the log: spans that ended with it can be told."""

    def worked(self, fold: Fold, task: str, began_ns: int, *, took_over: bool) -> None:
        """A task was worked since `began_ns` (nanoseconds since 1970), and is let go of."""

    def within(self, fold: Fold, effect: Effect) -> AbstractContextManager[object]:
        """A context in which users' own spans are part of what an effect is part of."""
        return nullcontext()

    def flush(self) -> None:
        """Hand over what is to be told; takes a bounded time."""


def tracing_of(settings: Settings, read: ReadEvents) -> Tracing:
    """
    What the settings ask for; who asks for nothing does not pay for the library.

    Raises:
        InvalidInput: the variables of OpenTelemetry ask for what is not here.
    """
    exporters = settings.span_exporters()
    if not exporters:
        return Tracing()
    from mulligan.actors.otel import OtelTracing, provider_of

    return OtelTracing(provider_of(exporters), read)
