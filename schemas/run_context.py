"""
What the code of a run may know of the run that it works for.

A tool or function that has a parameter `run_context` is handed one; models and workflow files can't
give it.
"""

from __future__ import annotations

import msgspec

from mulligan.schemas.web_rules import WebRules

__all__ = ["RUN_CONTEXT", "RunContext"]

RUN_CONTEXT = "run_context"
"""The parameter by which a function or tool gets the context of its run."""


class RunContext(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """
    The run, the `call` (of a tool, by its id; of a function, by its node), the `owner` (the
    invocation, or the node), the window that the run was asked for from, where it may browse, and
    the folders (absolute paths) whose files it may read; and when it was asked for, in milliseconds
    of the server's clock: the same whenever it is called.
    """

    run: str
    call: str
    owner: str
    origin_window: str | None = None
    web: WebRules = WebRules()
    requested_ms: int | None = None
    read_roots: tuple[str, ...] = ()
