"""Who asks for a command, and what that one may do."""

from __future__ import annotations

import msgspec

from mulligan.schemas.run_context import RunContext
from mulligan.schemas.web_rules import WebRules

__all__ = ["Caller"]


SESSION = "session"
RUN_SESSION = "%73ession"
"""What ids of callers that are no run begin with, and those of a run that is called so."""


class Caller(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """
    `owner` owns the page tokens that its commands give: an agent's invocation of a run
    (`run:invocation`), a function node (`run:node`), or a session of HTTP or MCP. `action` is the
    stable id of this one command: the same id is the same command, however often it arrives.

    `window` is the window that `owner` works in; with `make_window` a window of its own is made
    where it names none (HTTP and MCP), without it that is refused. `run` is whose pages of other
    windows were opened to.
    """

    owner: str
    action: str
    run: str | None = None
    window: str | None = None
    make_window: bool = False
    rules: WebRules = WebRules()

    @classmethod
    def of_run(cls, context: RunContext, step: str = "") -> Caller:
        """
        The caller of a run's tool or function. A function that gives several commands names each:
        the `step` is part of the action's id, so it must be the same when it is called again.
        """
        run = RUN_SESSION if context.run == SESSION else _part(context.run)
        action = f"{run}:{context.call}" + (f"/{step}" if step else "")
        return cls(
            owner=f"{run}:{context.owner}",
            action=action,
            run=context.run,
            window=context.origin_window,
            rules=context.web,
        )

    @classmethod
    def outside(
        cls, session: str, call: str, *, window: str | None = None, rules: WebRules
    ) -> Caller:
        """
        A caller that is no run: `session` is one client of HTTP or MCP, `call` one request of it.
        It names a window or gets one made for the session.
        """
        owner = f"{SESSION}:{_part(session)}"
        return cls(
            owner=owner,
            action=f"{owner}:{call}",
            window=window,
            make_window=True,
            rules=rules,
        )


def _part(name: str) -> str:
    """A name as a part of an id: whoever reads it knows where it ends, so no two ids are one."""
    return name.replace("%", "%25").replace(":", "%3A")
