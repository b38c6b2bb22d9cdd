"""A model that reads what its tools gave it, as a script can't: tokens are new each time."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from mulligan.testing.replies import Reply, reply_to
from mulligan.testing.script import ScriptedCall, Turn
from mulligan.testing.scripted_model import ReceivedRequest, ScriptedModel

Decides = Callable[[list[str], str], dict[str, Any] | None]
"""From what tools gave so far and the prompt, the next call's arguments; None: it is done."""


class BrowsingModel(ScriptedModel):
    """
    Asks for `web_use` as `decides` says, and hands in `{"saved": true}` at the end; or `says` the
    same whatever it is asked.
    """

    def __init__(self, decides: Decides) -> None:
        super().__init__({"turns": []})
        self.decides = decides
        self.says: dict[str, Any] | None = None

    async def _reply(self, received: ReceivedRequest, body: dict[str, Any], serial: int) -> Reply:
        if self.says is not None:
            return reply_to(Turn(text=json.dumps(self.says)), body, serial)
        messages = body["messages"]
        results = [str(one["content"]) for one in messages if one["role"] == "tool"]
        prompt = next(str(one["content"]) for one in messages if one["role"] == "user")
        arguments = self.decides(results, prompt)
        if arguments is None:
            return reply_to(Turn(json={"saved": True}), body, serial)
        call = ScriptedCall(name="web_use", arguments=arguments)
        return reply_to(Turn(tool_calls=[call]), body, serial)


def saves_the_form(**more: Any) -> Decides:
    """Opens the URL of the prompt, types, clicks Save with evidence."""

    def decides(results: list[str], prompt: str) -> dict[str, Any] | None:
        if not results:
            url = re.search(r"http\S+[^.\s]", prompt)
            assert url is not None
            return {"command": "observe", "url": url[0]}
        if len(results) > 2:
            return None
        seen = json.loads(results[-1])
        page = seen["page"]
        seen = seen.get("observation", seen) if isinstance(seen.get("observation"), dict) else seen
        act = {"command": "act", "page": page, "observation": seen["observation"]}
        if len(results) == 1:
            week = ref(seen, 'textbox "Week"')
            return {**act, "action": "type", "element": week, "text": prompt[-8:]}
        evidence = [{"condition": "text_contains", "value": "Report saved"}]
        save = ref(seen, 'button "Save"')
        return {**act, "action": "click", "element": save, "evidence": evidence, **more}

    return decides


def ref(seen: dict[str, Any], what: str) -> str:
    """The reference of `button "Save"` in an observation."""
    found = re.search(rf"{re.escape(what)}(?: \[[^\]]*\])*? \[ref=(\w+)\]", seen["snapshot"])
    assert found is not None, seen
    return found[1]
