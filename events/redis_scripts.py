"""
The scripts in `lua/`, loaded and called by their digest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from hashlib import sha1
from importlib.resources import files
from typing import Any, Literal

from redis import Redis
from redis.exceptions import NoScriptError

Name = Literal[
    "append",
    "claim",
    "renew",
    "give_back",
    "sweep",
    "audit",
    "commit_rows",
    "announce",
    "keep_snapshot",
    "switch_rows",
    "trim_feed",
    "retire",
    "slots",
    "renew_slots",
]

_HEAD = "#!lua\n"
_HEAD_WHEN_FULL = "#!lua flags=allow-oom\n"


@cache
def source(name: Name) -> str:
    """The text of a script."""
    return (files("mulligan.events") / "lua" / f"{name}.lua").read_text("utf-8")


def runs_when_full(text: str) -> str:
    """The same script, allowed to run when the server's memory is full."""
    return text.replace(_HEAD, _HEAD_WHEN_FULL, 1)


def without_head(text: str) -> str:
    """The same script without its first line, which some imitations of a server can't read."""
    return "--" + text if text.startswith("#!") else text


class Scripts:
    """
    Calls scripts by digest; one that the server does not know (any more) is sent whole.

    With `heads` off their first lines are left out, and with them the server's own check that a
    script may write: for imitations that have no such check.
    """

    def __init__(self, client: Redis, *, heads: bool = True) -> None:
        self._client = client
        self._heads = heads
        self._known: dict[str, str] = {}

    def call(
        self, name: Name, keys: Sequence[str], args: Sequence[Any], *, when_full: bool = False
    ) -> Any:
        """Run a script; all its keys lie in one slot."""
        text = runs_when_full(source(name)) if when_full else source(name)
        if not self._heads:
            text = without_head(text)
        try:
            return self._send("EVALSHA", self._digest(text), keys, args)
        except NoScriptError:
            return self._send("EVAL", text, keys, args)

    def _send(self, command: str, script: str, keys: Sequence[str], args: Sequence[Any]) -> Any:
        send: Callable[..., Any] = self._client.execute_command
        return send(command, script, len(keys), *keys, *args)

    def _digest(self, text: str) -> str:
        if text not in self._known:
            self._known[text] = sha1(text.encode(), usedforsecurity=False).hexdigest()
        return self._known[text]
