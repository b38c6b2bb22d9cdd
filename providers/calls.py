"""
Function calls put together from the fragments of a stream.
"""

from __future__ import annotations

from typing import Any

import msgspec

from mulligan.providers.port import ToolCall


class _OpenCall:
    """A call that may still grow."""

    def __init__(self, call_id: str | None) -> None:
        self.id = call_id
        self.name: str | None = None
        self.arguments: list[str] = []

    @property
    def whole(self) -> bool:
        """Whether its arguments are one complete JSON value: more would belong to another."""
        try:
            msgspec.json.decode("".join(self.arguments))
        except (msgspec.DecodeError, RecursionError):
            return False
        return True


class CallCollector:
    """
    Collects fragments by `index`. At the same index a new call begins with a non-null id that
    differs, or, where no ids are sent, with a name after arguments that are whole. Arguments are
    kept as the raw text received.
    """

    def __init__(self) -> None:
        self._calls: list[_OpenCall] = []
        self._at: dict[int, _OpenCall] = {}

    def add(self, fragment: dict[str, Any]) -> tuple[str | None, str]:
        """
        Take a member of a delta's `tool_calls`; returns the name of the call that it belongs to, as
        far as it is known, and the arguments that it adds.
        """
        function = fragment.get("function")
        function = function if isinstance(function, dict) else {}
        name = function.get("name") or None
        arguments = _raw(function.get("arguments"))
        call = self._call_of(fragment, name, arguments)
        if isinstance(name, str) and call.name is None:
            call.name = name
        call.arguments.append(arguments)
        return call.name, arguments

    @property
    def count(self) -> int:
        """How many calls have begun."""
        return len(self._calls)

    def calls(self) -> tuple[ToolCall, ...]:
        """The calls so far, in the order they began; an id that was not sent is empty."""
        return tuple(
            ToolCall(call.id or "", call.name or "", "".join(call.arguments))
            for call in self._calls
        )

    def _call_of(self, fragment: dict[str, Any], name: Any, arguments: str) -> _OpenCall:
        call_id = fragment.get("id") or None
        call_id = call_id if isinstance(call_id, str) else None
        index = fragment.get("index")
        if not isinstance(index, int):
            index = self._index_of(call_id)
        current = self._at.get(index)
        if current is None or self._begins(current, call_id, name, arguments):
            current = self._at[index] = _OpenCall(call_id)
            self._calls.append(current)
        current.id = current.id or call_id
        return current

    def _index_of(self, call_id: str | None) -> int:
        """Where a fragment without an index belongs: to its id's call, or else to the latest."""
        if not self._at:
            return 0
        known = [index for index, call in self._at.items() if call_id and call.id == call_id]
        if known:
            return known[0]
        return max(self._at) + (1 if call_id else 0)

    @staticmethod
    def _begins(current: _OpenCall, call_id: str | None, name: Any, arguments: str) -> bool:
        if call_id is not None:
            return current.id is not None and current.id != call_id
        # Some providers repeat the name in every fragment: only whole arguments end a call.
        again = name is not None and current.name is not None
        return again and (bool(arguments) or name != current.name) and current.whole


def _raw(arguments: Any) -> str:
    """Arguments as text; a provider that sends an object instead gets it back as its JSON."""
    if arguments is None:
        return ""
    return arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()
