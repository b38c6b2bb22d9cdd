"""The tool that agents get: one with several commands, and no other way to the web."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from mulligan.schemas.run_context import RunContext
from mulligan.schemas.tool_spec import EffectCase
from mulligan.settings import load_settings
from mulligan.tools.registry import tool
from mulligan.tools.web_use.caller import Caller
from mulligan.tools.web_use.client import BridgeClient
from mulligan.tools.web_use.codes import WebUseFailed
from mulligan.tools.web_use.commands import ACTIONS, COMMANDS, NO_WRITES
from mulligan.tools.web_use.conditions import CONDITIONS

__all__ = ["web_use"]

TIMEOUT_MS = 60_000


def _cases() -> list[EffectCase]:
    """The commands that are no write, by the argument that names each."""
    named = [(shape.__struct_config__, effect) for shape, effect in NO_WRITES.items()]
    return [EffectCase(given={str(n.tag_field): n.tag}, effect=effect) for n, effect in named]


def _happened(run_context: RunContext | None) -> bool | None:
    """What the bridge knows of an act: whether it was begun, and whether it is confirmed."""
    if run_context is None:
        return None
    try:
        with BridgeClient(load_settings().browser_socket_path) as bridge:
            receipt = bridge.settle(Caller.of_run(run_context))
    except WebUseFailed:
        return None
    if receipt is None or receipt.outcome == "not_started":
        return False
    return True if receipt.outcome in ("done", "confirmed") else None


def _one_of(names: tuple[str, ...]) -> Any:
    """
    A text that is shown as one of these. It is not refused here where it is none: that is a failure
    with a code of its own.
    """
    return Field(json_schema_extra={"enum": list(names)})


class PageCondition(BaseModel):
    """Something that a page shows or does not; element_present takes `button "Save"`."""

    model_config = ConfigDict(extra="forbid")

    condition: Annotated[str, _one_of(CONDITIONS)]
    value: str


@tool(
    effect="write",
    timeout_ms=TIMEOUT_MS,
    verify=_happened,
    cases=_cases(),
)
def web_use(
    command: Annotated[str, _one_of(COMMANDS)],
    action: Annotated[str | None, _one_of((*ACTIONS,))] = None,
    page: str | None = None,
    url: str | None = None,
    observation: str | None = None,
    element: str | None = None,
    text: str | None = None,
    secret: str | None = None,
    key: str | None = None,
    values: list[str] | None = None,
    files: list[str] | None = None,
    dy: int | None = None,
    conditions: list[PageCondition] | None = None,
    evidence: list[PageCondition] | None = None,
    failures: list[PageCondition] | None = None,
    since: str | None = None,
    wait_ms: int | None = None,
    *,
    run_context: RunContext | None = None,
) -> dict[str, Any]:
    """
    Use a real browser. Every result gives a new `page` token; a token can be used once.

    list_pages: the pages of your window. observe (page or url): the page's accessibility tree, with
    references such as e12 in brackets; a url opens a page, so none has to be open. act: do the
    action on an element (a reference of the newest observation, whose id is `observation`):
    navigate (url), click, type (text, or secret: the name of one), press (key), scroll (dy), hover,
    select (values), upload (files), screenshot. State as `evidence` what will show that an act has
    done what it is for. verify (page, conditions): whether they hold. close (page).

    Any act makes earlier observations stale: observe again. Never repeat an act that may have been
    done: its receipt says so.
    """
    given = {
        **{"command": command, "action": action, "page": page, "url": url},
        **{"observation": observation, "element": element, "text": text, "secret": secret},
        **{"key": key, "values": values, "files": files, "dy": dy, "conditions": conditions},
        **{"evidence": evidence, "failures": failures, "since": since, "wait_ms": wait_ms},
    }
    if run_context is None:
        raise WebUseFailed("permission_denied", "web_use belongs to a run; enqueue a workflow")
    with BridgeClient(load_settings().browser_socket_path) as bridge:
        return bridge.call(_plain(given), Caller.of_run(run_context))


def _plain(arguments: dict[str, Any]) -> dict[str, Any]:
    """Arguments as JSON values."""
    return {
        name: [one.model_dump() if isinstance(one, PageCondition) else one for one in value]
        if isinstance(value, list)
        else value
        for name, value in arguments.items()
    }
