"""
What requests hold. Each field means what the parameter of that name of `Client` means.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from mulligan.asked import LONGEST_NAME, LONGEST_REASON, LONGEST_TAG, MOST_TAGS
from mulligan.decisions.cron import LONGEST_CRON
from mulligan.events.prepared import LONGEST_DELAY_MS
from mulligan.events.tenants import MOST
from mulligan.schemas.workflow import Duration, RetryPolicy

RunName = Annotated[str, Field(min_length=1, max_length=200)]
Name = Annotated[str, Field(min_length=1, max_length=LONGEST_NAME)]
ScheduleName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$")]
Reason = Annotated[str, Field(max_length=LONGEST_REASON)]
By = Annotated[Name, Field(description="Who says so; kept in the log, checked by nobody.")]


Tenant = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class NewRun(_Body):
    """
    A run to ask for. `workflow` is a name of `GET /workflows`. With a `run_id` of your own, asking
    again with the same workflow and input is the same run.
    """

    workflow: Name
    input: Any = None
    run_id: RunName | None = None
    tags: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=LONGEST_TAG)]],
        Field(max_length=MOST_TAGS),
    ] = []
    priority: Literal[-1, 0, 1] = 0
    delay_ms: Annotated[int, Field(ge=0, le=LONGEST_DELAY_MS)] = 0
    model: Name | None = None
    origin_window: Name | None = None
    tenant: Tenant | None = None


class Fork(_Body):
    """A run to begin as a copy of another's events up to `at_version`."""

    at_version: Annotated[int, Field(ge=1)]
    run_id: RunName | None = None


class Cancel(_Body):
    """Why a run is cancelled."""

    reason: Reason = ""


class Resume(_Body):
    """What goes on: a node, or all that is paused."""

    node: Name | None = None


class Chosen(_Body):
    """An option of a question, by its label."""

    option: str


class Answer(_Body):
    """
    An answer to what an agent asks: a text, or to questions with options one for each id. Where
    several wait, `request` or `node` says which is answered.
    """

    answer: str | dict[str, str | Chosen]
    request: Name | None = None
    node: Name | None = None
    by: By = "operator"


class Approve(_Body):
    """A call that may be run, once."""

    call: Name
    by: By = "operator"


class Deny(_Body):
    """A call that is refused; its agent is told the reason."""

    call: Name
    reason: Reason = ""
    by: By = "operator"


class Decide(_Body):
    """What becomes of a draft that did not converge; `take_over` hands in a `draft`."""

    decision: Literal["accept", "abort", "take_over"]
    draft: Any = None
    node: Name | None = None
    by: By = "operator"


class Signal(_Body):
    """
    A signal: its name, what it tells, and a key by which it is known when it is sent again.
    """

    name: Name
    data: Any = None
    key: Name | None = None
    by: By = "operator"


class WhoSays(_Body):
    """Who says so."""

    by: By = "operator"


class NewSchedule(_Body):
    """
    A schedule: runs of `workflow`, a name of `GET /workflows`, at the moments of `cron` by the
    clocks of `timezone`. The workflow is kept as it is now. With `replace`, these terms take the
    place of others.
    """

    name: ScheduleName
    workflow: Name
    cron: Annotated[str, Field(max_length=LONGEST_CRON)]
    timezone: Annotated[str, Field(max_length=100)] = "UTC"
    input: Any = None
    model: Name | None = None
    tags: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=LONGEST_TAG)]],
        Field(max_length=MOST_TAGS - 1),
    ] = []
    priority: Literal[-1, 0, 1] = 0
    tenant: Tenant | None = None
    overlap: Literal["skip", "allow"] = "skip"
    catch_up: Literal["none", "last", "all"] = "last"
    replace: bool = False
    by: By = "operator"


class PauseSchedule(_Body):
    """Why a schedule fires no more."""

    reason: Reason = ""
    by: By = "operator"


class Trigger(_Body):
    """A key by which the run is known when it is asked for again."""

    key: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.:-]{1,80}$")] | None = None
    by: By = "operator"


class Reconcile(_Body):
    """What became of a call whose outcome is unknown; `result` is what it returned."""

    call: Name
    outcome: Literal["succeeded", "failed", "retry"]
    result: Any = None
    by: By = "operator"


Limit = Annotated[int, Field(ge=1, le=MOST)] | Literal["none"] | None


class LimitsChange(_Body):
    """
    What a tenant may take; "none" lifts a limit, null or nothing leaves it to the default. Of all
    together (`+`) only `runs` can be limited.
    """

    runs: Limit = None
    requests: Limit = None
    per_minute: Limit = None
    tokens_per_minute: Limit = None
    queued: Limit = None


class SettingsChange(_Body):
    """
    What to change of a workflow's settings; each means what it means in a workflow file, and one
    that is left out is as it is there.
    """

    model_config = ConfigDict(populate_by_name=True)

    model: Name | None = None
    output_repair_model: Annotated[str | None, Field(alias="outputRepairModel", max_length=200)] = (
        None
    )
    output_repair_strict: Annotated[bool | None, Field(alias="outputRepairStrict")] = None
    output_repair_timeout: Annotated[Duration | None, Field(alias="outputRepairTimeout")] = None
    recovery_limit: Annotated[int | None, Field(ge=0, le=1_000)] = None
    retry: RetryPolicy | None = None


class SignIn(_Body):
    """A token, for a page that can't keep one."""

    token: Annotated[str, Field(min_length=1, max_length=512)]


class WebUse(BaseModel):
    """
    A command of `web_use` with its arguments beside it: `{"command": "observe", "url": "…"}`.

    `session` is one caller, whose window and page tokens are its own; the first command may leave
    it out, the next ones name the one that was answered. `call` is this command's id: the same id
    again is the same command, and an act is not done twice. `window` is a window of `mulligan
    browser` that is to be used instead of one that is made for the session.
    """

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)

    session: Name | None = None
    call: Name | None = None
    window: Name | None = None
