"""
A single agent, called outside any run.

    done = invoke("Count the {input}.", input="sheep", model="openai/some-model", output=Count)
    print(done.output, done.recovery.used)

`invoke` and `ainvoke` take the decisions that a run's workers take, on a log that lives as long as
the call: the same retries under the same allowance (its own, REC-29), the same judgement of
outputs, the same intent before each request and tool. What a run survives (a crash, a restart) a
call does not; one that is paused is over, and raises. So nobody can be asked by one: questions to
people and tools that want approval are refused. Where `MULLIGAN_MODEL_LIMITS` limit its model it
waits in the same lane as the runs of `MULLIGAN_REDIS_URL`, or, where that is not set, among the
calls of its process.
"""

from __future__ import annotations

import asyncio
import random
import secrets
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypedDict, Unpack

import msgspec
from msgspec.structs import replace

from mulligan.actors.assemble import repetition_of
from mulligan.actors.call_slots import call_slot
from mulligan.actors.perform import ask_model, called, observe_tool, tool_outcome, within
from mulligan.actors.slots import decide_in_lane
from mulligan.decisions.decision import (
    AskModel,
    Context,
    Decision,
    ObserveTool,
    Outcome,
    Release,
    RunTool,
)
from mulligan.decisions.slots import place_of
from mulligan.errors import InvalidInput, InvocationFailed
from mulligan.events.envelope import Envelope, NewEvent
from mulligan.events.facts import (
    Fact,
    ModelFailed,
    OutputAccepted,
    RunCancelRequested,
    RunRequested,
)
from mulligan.events.payload import Payload
from mulligan.events.sealed import unseal
from mulligan.events.tasks import run_task
from mulligan.projections import usage
from mulligan.projections.run import evolve
from mulligan.projections.state import Invocation, Recovery, RunState
from mulligan.projections.usage import ModelUsage
from mulligan.providers.port import Cancellation, Provider
from mulligan.providers.router import ModelRouter
from mulligan.schemas.builder import DurationLike, Shape, Workflow
from mulligan.schemas.compile import compile_plan
from mulligan.schemas.plan import (
    DEFAULT_TOOL_TIMEOUT_MS,
    AgentPlan,
    OutputModeSetting,
    Plan,
    ToolSpec,
    plan_to_dict,
)
from mulligan.settings import Settings, load_settings
from mulligan.tools.registry import Tool

AGENT = "agent"
"""The id of the one invocation."""

LOOK_MS = 250
"""How often a call looks whether a slot is free for it."""


class InvokeOptions(TypedDict, total=False):
    """
    What a call may be given beside its prompt, as in a workflow's file. `input` fills the prompt's
    `{input}`; `output` is a pydantic model or a JSON Schema; `tools` are `Tool`s, run in threads of
    this process; `provider` answers in place of the model's own.
    """

    input: Any
    system: str
    tools: Sequence[Tool[..., Any]]
    output: Shape
    model: str
    mode: OutputModeSetting
    recovery_limit: int
    max_output_tokens: int
    temperature: float
    accept_missing_closers: bool
    timeout: DurationLike
    api_base: str
    retry: dict[str, DurationLike]
    limits: dict[str, int]
    read_roots: list[str]
    output_repair_model: str
    output_repair_strict: bool
    output_repair_timeout: DurationLike
    provider: Provider
    settings: Settings


class Invoked(msgspec.Struct, frozen=True, kw_only=True):
    """
    How a call ended: its output (None without one), the `attempt` that produced it, the allowance,
    the usage by model (what was not reported is counted as unknown), the overseer's apart, and
    every event.
    """

    output: Any
    assistant_message: str | None
    attempt: int
    recovery: Recovery
    usage: dict[str, ModelUsage]
    overseer_usage: dict[str, ModelUsage]
    events: tuple[Envelope, ...]


def invoke(prompt: str, **options: Unpack[InvokeOptions]) -> Invoked:
    """
    Ask one agent and wait for its output.

    Raises:
        InvocationFailed: there is none; says whether the call is paused, failed or cancelled, why,
            and what it used.
        WorkflowInvalid, InvalidInput: the options can't be used.
        EnvironmentUnfit: the model can't be asked; the message says what is missing.
        StoreUnavailable: the model has limits, and the server that counts does not answer.
    """
    with _Call(prompt, options) as call:
        return call.work()


async def ainvoke(prompt: str, **options: Unpack[InvokeOptions]) -> Invoked:
    """
    As `invoke`, without blocking the event loop. Cancelled, it aborts the request under way, awaits
    a running tool up to its timeout, and sends nothing more.

    Raises:
        As `invoke`.
    """
    with _Call(prompt, options) as call, ThreadPoolExecutor(1, "invoke") as thread:
        work = asyncio.get_running_loop().run_in_executor(thread, call.work)
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            call.cancel()
            await asyncio.wait({work})
            work.exception()  # it is told by the cancellation
            raise


class _Call:
    """One call: its log, its state, and the thread that works it."""

    def __init__(self, prompt: str, options: InvokeOptions) -> None:
        self._given = options.get("provider")
        settings = options.get("settings") or load_settings()
        self._tools = _by_path(options.get("tools", ()))
        plan = _plan(prompt, options, settings, self._tools)
        self._provider = self._given or _router(settings)
        self._state = RunState(run=f"invoke-{secrets.token_hex(6)}")
        self._task = run_task(self._state.run)
        self._slot = call_slot(settings)
        self._events: list[Envelope] = []
        self._candidates: dict[str, str] = {}
        self._stop = threading.Event()
        self._cancellation = Cancellation()
        self._happened(
            RunRequested(
                workflow=plan.name,
                workflow_version=plan.version,
                digest=plan.digest,
                plan=plan_to_dict(plan),
                input=Payload.of(options.get("input")),
            )
        )

    def __enter__(self) -> _Call:
        return self

    def __exit__(self, *_: object) -> None:
        self._slot.give_back()
        place = place_of(self._state, self._task)
        if place is not None:  # it was waiting when an error ended it
            self._slot.leave(place.lane)
        if self._given is None:
            self._provider.close()

    def cancel(self) -> None:
        """Begin nothing more, and abort the request under way; from any thread."""
        self._stop.set()
        self._cancellation.cancel()

    def work(self) -> Invoked:
        """Decide and do, one thing at a time, until the call has ended or is paused."""
        while True:
            release = self._work(self._task)
            if self._candidates:  # the call waits for the overseer, who is at work here and now
                for task in list(self._candidates):
                    self._work_out(task)
            elif release.to == "timer":
                self._wait(self._task, release.delay_ms)
            else:
                return self._end()

    def _work_out(self, task: str) -> None:
        """Work a task to its end."""
        while (release := self._work(task)).to == "timer":
            self._wait(task, release.delay_ms)

    def _work(self, task: str) -> Release:
        """Work a task until it is released."""
        outcome: Outcome | None = None
        while True:
            decision = self._decide(task, outcome)
            outcome = self._do(decision) if decision.effect is not None else None
            if decision.release is not None:
                return decision.release

    def _wait(self, task: str, delay_ms: int) -> None:
        """Until it is time; nobody calls us, so a slot is looked for now and then."""
        if place_of(self._state, task) is not None:
            delay_ms = min(delay_ms, LOOK_MS)
        self._stop.wait(delay_ms / 1000)

    def _decide(self, task: str, outcome: Outcome | None) -> Decision:
        if self._stop.is_set() and not (self._state.ended or self._state.status == "cancelling"):
            self._happened(RunCancelRequested())
        prepare, candidate_of = self._provider.prepare, self._candidates.get
        context = Context(_now_ms(), _value_of, prepare, random.random(), candidate_of)
        decision = decide_in_lane(self._slot, self._state, task, context, outcome)
        for event in decision.events:
            self._append(event)
        self._candidates |= {one.task: unseal(one.data) for one in decision.sealed}
        for gone in decision.discarded:
            self._candidates.pop(gone, None)
        return decision

    def _do(self, decision: Decision) -> Outcome:
        match decision.effect:
            case AskModel() as effect:
                asked = ask_model(self._provider, effect, self._cancellation)
                self._slot.give_back(asked)
                return asked
            case RunTool() as effect:
                return self._run_tool(effect)
            case ObserveTool() as effect:
                return observe_tool(self._tools[effect.spec.path], effect)
            case effect:
                raise AssertionError(f"a single agent asks for no {type(effect).__name__}")

    def _run_tool(self, effect: RunTool) -> Outcome:
        tool = self._tools[effect.spec.path]
        timeout_ms = effect.spec.timeout_ms or DEFAULT_TOOL_TIMEOUT_MS
        started_s = time.monotonic()
        result = within(timeout_ms, called(tool, effect))
        duration_ms = int((time.monotonic() - started_s) * 1000)
        return tool_outcome(effect, result, duration_ms, timeout_ms)

    def _happened(self, fact: Fact) -> None:
        self._append(NewEvent(fact))

    def _append(self, event: NewEvent) -> None:
        version = self._state.version + 1
        envelope = Envelope(
            id=f"{self._state.run}.{version}",
            run=self._state.run,
            version=version,
            time_ms=_now_ms(),
            data=event.data,
            node=event.node,
            attempt=event.attempt,
        )
        self._events.append(envelope)
        evolve(self._state, envelope)

    def _end(self) -> Invoked:
        invocation = self._state.invocations.get(AGENT)
        account = self._account(invocation)
        if self._state.status == "completed":
            return account
        raise _failure(self._state, invocation, account)

    def _account(self, invocation: Invocation | None) -> Invoked:
        accepted = [e for e in self._events if isinstance(e.data, OutputAccepted)]
        fact = accepted[-1].data if accepted else None
        output = self._state.output
        used = usage.fold(self._state.run, self._events)
        return Invoked(
            output=_value_of(output) if output is not None else None,
            assistant_message=fact.assistant_message if isinstance(fact, OutputAccepted) else None,
            attempt=invocation.attempt if invocation else 1,
            recovery=invocation.recovery if invocation else Recovery(invocation_id=AGENT, limit=0),
            usage=used.models,
            overseer_usage=used.overseer,
            events=tuple(self._events),
        )


def _failure(state: RunState, invocation: Invocation | None, account: Invoked) -> InvocationFailed:
    """The error for a call without an output; its phase was settled before (REC-8)."""
    cause = invocation.recovery.cause if invocation is not None else None
    if state.status == "paused" and cause is not None:
        code, detail, http_status = cause.kind, cause.told, cause.status
    elif state.failure is not None:
        code, detail = state.failure.kind, state.failure.message
        http_status = _last_status(account.events, code)
    else:
        code, detail, http_status = state.reason or state.status, state.detail, None
    return InvocationFailed(
        state.status,
        detail,
        code=code,
        reason=state.reason,
        http_status=http_status,
        invocation=account,
    )


def _last_status(events: Sequence[Envelope], kind: str) -> int | None:
    """The provider's status of the failure that ended the call, if it was one of a request."""
    causes = [event.data.cause for event in events if isinstance(event.data, ModelFailed)]
    return causes[-1].status if causes and causes[-1].kind == kind else None


# --- The plan ------------------------------------------------------------------------------------

_OF_SETTINGS = (
    *("model", "recovery_limit", "api_base", "retry", "limits", "read_roots"),
    *("output_repair_model", "output_repair_strict", "output_repair_timeout"),
)
_NOT_OF_AGENT = (*_OF_SETTINGS, "input", "tools", "provider", "settings")


def _plan(
    prompt: str, options: InvokeOptions, settings: Settings, tools: Mapping[str, Tool[..., Any]]
) -> Plan:
    """The plan of a run with the one agent, checked as a workflow's is."""
    given: dict[str, Any] = dict(options)
    _refuse_to_ask(given, tools)
    flow = Workflow("invoke", **{k: given[k] for k in _OF_SETTINGS if k in given})
    own = {k: v for k, v in given.items() if k not in _NOT_OF_AGENT}
    flow.agent(AGENT, prompt=prompt, **own)
    plan = compile_plan(flow.definition(), default_model=settings.model)
    (node,) = plan.nodes
    assert isinstance(node.work, AgentPlan)
    work = replace(node.work, tools=tuple(tools))
    specs = {path: _spec(path, tool) for path, tool in tools.items()}
    return replace(plan, nodes=(replace(node, work=work),), tools=specs)


def _refuse_to_ask(given: Mapping[str, Any], tools: Mapping[str, Tool[..., Any]]) -> None:
    """Nobody can be asked: an answer may take days, and a call is gone with its process."""
    instead = "outside a run: enqueue a workflow with this agent as its node"
    asking = [tool.name for tool in tools.values() if tool.permission == "ask"]
    if asking:
        raise InvalidInput(f"tool {asking[0]!r} wants approval, which nobody can give {instead}")
    if given.get("allow_user_input") or given.get("ask_before"):
        raise InvalidInput(f"allow_user_input and ask_before have nobody to ask {instead}")


def _by_path(tools: Sequence[Tool[..., Any]]) -> dict[str, Tool[..., Any]]:
    """The tools by a path of our own: they are at hand, and need not be importable."""
    for tool in tools:
        if not isinstance(tool, Tool):
            raise InvalidInput(f"{tool!r} is no tool: decorate the function with @tool")
    by_path = {f"given:{tool.name}": tool for tool in tools}
    if len(by_path) < len(tools):
        raise InvalidInput("two tools have the same name: give one of them another with `name=`")
    return by_path


def _spec(path: str, tool: Tool[..., Any]) -> ToolSpec:
    return ToolSpec(
        name=tool.name,
        description=tool.function.__doc__ or "",
        parameters=tool.parameters,
        effect=tool.effect,
        path=path,
        digest="",
        timeout_ms=tool.timeout_ms,
        cases=tool.cases,
    )


def _router(settings: Settings) -> Provider:
    def key(name: str) -> str | None:
        secret = settings.provider_key(name)
        return secret.get_secret_value() if secret is not None else None

    return ModelRouter(key, api_base=settings.api_base, repetition=repetition_of(settings))


def _now_ms() -> int:
    return int(time.time() * 1000)


def _value_of(payload: Payload) -> Any:
    return payload.value
