"""
The scripts in `lua/`, loaded and called by their digest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from hashlib import sha1
from importlib.resources import files
from typing import Any, Literal

from mulligan.events.redis_connection import Server, wire_error
from mulligan.wire import ServerRefused

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
    "replace_data_keys",
    "slots",
    "renew_slots",
]

_HEAD = "#!lua\n"
_HEAD_WHEN_FULL = "#!lua flags=allow-oom\n"


@cache
def source(name: Name) -> str:
    """The text of a script."""
    return (files("mulligan.events") / "lua" / f"{name}.lua").read_text("utf-8")


@cache
def runs_when_full(text: str) -> str:
    """The same script, allowed to run when the server's memory is full."""
    return text.replace(_HEAD, _HEAD_WHEN_FULL, 1)


@cache
def without_head(text: str) -> str:
    """The same script without its first line, which some imitations of a server can't read."""
    return "--" + text if text.startswith("#!") else text


@cache
def digest_of(text: str) -> str:
    """What the server knows a script by."""
    return sha1(text.encode(), usedforsecurity=False).hexdigest()


class Scripts:
    """
    Calls scripts by digest; one that the server does not know (any more) is sent whole.

    With `heads` off their first lines are left out, and with them the server's own check that a
    script may write: for imitations that have no such check.
    """

    def __init__(self, client: Server, *, heads: bool = True) -> None:
        self._client = client
        self._heads = heads

    def call(
        self, name: Name, keys: Sequence[str], args: Sequence[Any], *, when_full: bool = False
    ) -> Any:
        """Run a script; all its keys lie in one slot."""
        text = runs_when_full(source(name)) if when_full else source(name)
        if not self._heads:
            text = without_head(text)
        try:
            return self._send("EVALSHA", digest_of(text), keys, args)
        except Exception as error:
            if not _is_unknown(error):
                raise
            return self._send("EVAL", text, keys, args)

    def _send(self, command: str, script: str, keys: Sequence[str], args: Sequence[Any]) -> Any:
        send: Callable[..., Any] = self._client.execute_command
        return send(command, script, len(keys), *keys, *args)


def _is_unknown(error: Exception) -> bool:
    """Whether the server says that it has no such script."""
    refused = wire_error(error)
    return isinstance(refused, ServerRefused) and refused.code == "NOSCRIPT"
