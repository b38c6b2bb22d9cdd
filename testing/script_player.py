"""
Which turn of a script a request gets.
"""

from __future__ import annotations

from collections.abc import Iterable

from mulligan.testing.script import Match, Script, Turn


class ScriptPlayer:
    """Plays one script: hands out its turns, each as often as it may be played."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._played = [0] * len(script.turns)

    def next_turn(self, seen: Match) -> int | None:
        """
        Take the turn for a request of which `seen` is known: its number, or None if none is left.
        """
        fitting = list(self._fitting(seen))
        left = (n for n in fitting if self._left(n))
        number = next(left, None)
        if number is None and self._script.on_exhausted == "repeat_last" and fitting:
            number = self._last(fitting)
        if number is not None:
            self._played[number] += 1
        return number

    @property
    def max_concurrent(self) -> int | None:
        """How many requests may be under way at once; None: any number."""
        return self._script.max_concurrent

    def turn(self, number: int) -> Turn:
        """The turn of that number, from 0."""
        return self._script.turns[number]

    def _fitting(self, seen: Match) -> Iterable[int]:
        """Turns that match the request, then those for any request; each in the script's order."""
        turns = list(enumerate(self._script.turns))
        yield from (n for n, turn in turns if turn.match is not None and turn.match.fits(seen))
        if not seen.overseer:
            yield from (n for n, turn in turns if turn.match is None)

    def _last(self, fitting: list[int]) -> int:
        """The last of the turns with a match if there are any, else the last of the others."""
        matched = [n for n in fitting if self._script.turns[n].match is not None]
        return (matched or fitting)[-1]

    def _left(self, number: int) -> bool:
        times = self._script.turns[number].times
        return times == "always" or self._played[number] < times
