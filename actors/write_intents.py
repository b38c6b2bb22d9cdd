"""
What has to be so before a write begins, besides its start in the log.
"""

from __future__ import annotations

from collections.abc import Callable

from mulligan.errors import IntentsUnfit
from mulligan.events.facts import ToolStartLost
from mulligan.events.intents import Intent, Intents
from mulligan.projections.lost_starts import fact_of, lost_starts
from mulligan.projections.state import RunState


class WriteIntents:
    """
    Args:
        witness: where intents are noted outside the log; None: nowhere.
        sync: has the log's server sync what it was told, and raises where it may not have; None:
            whatever it acknowledges is as safe as it gets.
    """

    def __init__(
        self, witness: Intents | None = None, sync: Callable[[], None] | None = None
    ) -> None:
        self._witness = witness
        self._sync = sync

    def announce(
        self, intent: Intent, state: Callable[[], RunState], catch_up: Callable[[], None]
    ) -> tuple[ToolStartLost, ...]:
        """
        Make sure that the start of a write, which is in the log, will be known of whatever becomes
        of the log. What comes back is what the witness has and the log lacks: then the write must
        not begin. `state` is the run's as known here, `catch_up` reads what is new.

        Raises:
            MulliganError: it could not be made sure; the write must not begin.
        """
        if self._sync is not None:
            self._sync()
        if self._witness is None:
            return ()
        # First the note, then the look at others: of two workers each sees the other, or one does.
        first = self._witness.note(intent)
        noted = self._witness.of_run(intent.run)
        lost = lost_starts(state(), noted)
        if lost:
            catch_up()  # others that were noted meanwhile are in the log before they are here
            lost = lost_starts(state(), noted)
        own = (intent.call_id, intent.execution)
        if not first:
            before = [one for one in noted if (one.call_id, one.execution) == own]
            lost += [one for one in before if one not in lost]
            if not before:
                raise IntentsUnfit(f"{self._witness.place}: an intent that was there is gone")
        return tuple(fact_of(one) for one in lost)
