"""What agents ask of people, and what people may say: given a history, what follows."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mulligan.decisions import answers, people
from mulligan.decisions.decision import AskModel, ModelOutcome, Release, RunTool, ToolOutcome
from mulligan.errors import InvalidInput
from mulligan.events.facts import (
    AllowanceReserved,
    InputProvided,
    InputRequested,
    ModelRequested,
    NodeFailed,
    NodePaused,
    NodeReady,
    NodeStarted,
    RunCancelRequested,
    RunPaused,
    RunResumed,
    RunStarted,
    SubagentCalled,
    ToolApprovalRequested,
    ToolApproved,
    ToolDenied,
    ToolRequested,
    ToolStarted,
)
from mulligan.events.payload import Payload
from mulligan.projections.history import problems
from mulligan.projections.open_requests import open_requests
from mulligan.projections.trace import fold as fold_trace
from mulligan.providers.port import Answer, ModelRequest, ToolCall
from mulligan.schemas.plan import AgentPlan, NodePlan, ToolSpec
from mulligan.testing.given import Given, facts, plan_of

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
LEAF = {
    "id": "leaf",
    "header": "Leaf",
    "question": "Which leaf?",
    "options": [
        {"label": "green", "description": "fresh"},
        {"label": "black", "description": "strong"},
    ],
}
SIZE = {**LEAF, "id": "size", "header": "Size", "question": "How much?"}
CANARY = "canary-2209"


def spec(name: str, effect: Any = "read", permission: Any = "allow") -> ToolSpec:
    return ToolSpec(
        name=name,
        path=f"tools:{name}",
        description="",
        parameters={"type": "object"},
        digest="",
        effect=effect,
        permission=permission,
    )


TOOLS = {
    one.path: one for one in (spec("look"), spec("save", "write"), spec("send", "write", "ask"))
}


def agent(**more: Any) -> AgentPlan:
    fields = {"prompt": "Count.", "model": "m", "output_schema": SCHEMA, "recovery_limit": 2}
    return AgentPlan(**{**fields, "tools": tuple(TOOLS), "allow_user_input": True, **more})


def begun(limits: dict[str, int] | None = None, **more: Any) -> Given:
    """A node `a` whose agent has sent its first request, by the node's own task."""
    plan = plan_of(
        NodePlan(id="a", work=agent(**more)),
        agents={"helper": agent(prompt="Help.", timeout_ms=None)},
        tools=TOOLS,
        **(limits or {}),
    )
    given = Given(plan).happened(RunStarted()).happened(NodeReady(), "a")
    given.happened(NodeStarted(), "a", 1)
    given.then("n:a")
    return given


def call(name: str, number: int = 1, **arguments: Any) -> ToolCall:
    return ToolCall(f"c{number}", name, json.dumps(arguments))


def hear(given: Given, *calls: ToolCall, task: str = "n:a", **more: Any) -> Any:
    """The open request is answered by these calls."""
    request = given.state.invocations[task[2:] or "a"].request
    assert request is not None
    fields = {"finish_reason": "tool_calls", "terminal": True, "text": "", **more}
    return given.then(task, ModelOutcome(request.id, Answer(calls=calls, **fields)))


def asked(given: Given, *questions: dict[str, Any]) -> Given:
    """The agent has asked freely, or these questions."""
    name = "ask_user_question" if questions else "request_user_input"
    arguments = {"questions": questions} if questions else {"assistant_message": "Which tea?"}
    hear(given, call(name, **arguments))
    return given


def say(given: Given, append: Any) -> tuple[str, ...]:
    """A person's append happens; who is woken by it."""
    for event in append.events:
        given.happened(event.data, event.node)
    return tuple(move.task for move in append.moves)


def request_in(decision: Any) -> ModelRequest:
    assert isinstance(decision.effect, AskModel)
    return decision.effect.prepared.request


def refusal(act: Any, *arguments: Any, **more: Any) -> str:
    with pytest.raises(InvalidInput) as refused:
        act(*arguments, **more)
    assert refused.value.exit_code == 2
    return str(refused.value)


# --- Questions that are none ---------------------------------------------------------------------

MALFORMED: list[tuple[str, str, str]] = [
    ("request_user_input", f'{{"assistant_message": "{CANARY}', "invalid_json"),
    ("request_user_input", "", "schema_violation"),
    ("request_user_input", json.dumps({"assistant_message": "  "}), "schema_violation"),
    ("request_user_input", json.dumps({"assistant_message": 7}), "schema_violation"),
    ("request_user_input", json.dumps([CANARY]), "schema_violation"),
    ("ask_user_question", "{}", "schema_violation"),
    *(
        ("ask_user_question", json.dumps({"questions": questions}), "schema_violation")
        for questions in (
            [],
            [LEAF, SIZE, {**LEAF, "id": "x"}, {**LEAF, "id": "y"}],
            [{**LEAF, "header": "thirteen long"}],
            [{**LEAF, "options": LEAF["options"][:1]}],
            [{**LEAF, "options": [{"label": str(n), "description": CANARY} for n in range(4)]}],
            [{**LEAF, "options": [LEAF["options"][0]] * 2}],
            [{**LEAF, "multiple": CANARY}],
            [LEAF, LEAF],
            [{key: value for key, value in LEAF.items() if key != "id"}],
        )
    ),
]


@pytest.mark.parametrize(("name", "arguments", "reason"), MALFORMED)
def test_ovr3_malformed_questions_draw_on_the_allowance_and_reach_no_overseer(
    name: str, arguments: str, reason: str
) -> None:
    given = begun()

    decision = hear(given, ToolCall("c1", name, arguments))

    assert facts(decision) == ["ModelAnswered a", "AllowanceReserved a", "ModelRequested a"]
    reserved = decision.events[1].data
    assert isinstance(reserved, AllowanceReserved)
    assert (reserved.reason, reserved.used) == (reason, 1)
    told = request_in(decision).messages[-1].content or ""
    assert name in told
    assert CANARY not in told
    assert problems(given.log) == []


def test_the_model_is_told_where_a_question_is_wrong() -> None:
    decision = hear(begun(), call("ask_user_question", questions=[{**LEAF, "header": "x" * 13}]))

    assert "/questions/0/header" in (request_in(decision).messages[-1].content or "")


def test_a_node_that_allows_no_questions_offers_none_and_takes_none() -> None:
    given = begun(allow_user_input=False)
    offered = {tool.name for tool in request_in(Given.replayed(given.log[:-1]).decide("n:a")).tools}
    assert not offered & {"request_user_input", "ask_user_question"}

    decision = hear(given, call("request_user_input", assistant_message="Which?"))

    assert decision.events[1].data.reason == "mixed_turn"


def test_rec14_a_question_beside_another_call_runs_nothing() -> None:
    both = (call("look"), call("request_user_input", 2, assistant_message="Which?"))

    decision = hear(begun(), *both)

    assert decision.events[1].data.reason == "mixed_turn"


# --- Questions -----------------------------------------------------------------------------------


def test_a_question_pauses_the_node_and_draws_on_nothing() -> None:
    given = begun()
    offered = {tool.name for tool in request_in(Given.replayed(given.log[:-1]).decide("n:a")).tools}
    assert offered >= {"request_user_input", "ask_user_question"}

    decision = hear(given, call("request_user_input", assistant_message="Which\ntea?"), text="Hm.")

    assert facts(decision) == ["ModelAnswered a", "InputRequested a", "NodePaused a"]
    assert decision.release == Release("wait")
    assert NodePaused(reason="awaiting_input", invocation="a", detail="a.1.1 asks: Which tea?") == (
        decision.events[-1].data
    )
    invocation = given.state.invocations["a"]
    assert (invocation.attempt, invocation.recovery.used) == (1, 0)
    paused = given.then()
    assert [type(event.data) for event in paused.events] == [RunPaused]
    assert paused.events[0].data.detail == "a.1.1 asks: Which tea?"
    assert given.state.reason == "awaiting_input"
    assert "a.1.1 asks: Which tea?" in [step.text for step in fold_trace("run", given.log).steps]


def test_the_answer_is_the_result_of_the_call_and_the_agent_goes_on() -> None:
    given = asked(begun())
    given.then()

    woken = say(given, people.answer(given.state, "op", "a.1.1", "green tea", by="ann"))

    assert woken == ("run/n:a", "run/")
    assert given.state.status == given.state.nodes["a"].status == "running"
    decision = given.then("n:a")
    said, result = request_in(decision).messages[-2:]
    assert [one.name for one in said.calls] == ["request_user_input"]
    assert json.loads(said.calls[0].arguments) == {"assistant_message": "Which tea?"}
    assert (result.role, result.tool_call_id, result.content) == ("tool", "c1", "green tea")
    sent = decision.events[0].data
    assert isinstance(sent, ModelRequested)
    assert (sent.turn, sent.retry_of, decision.events[0].attempt) == (2, None, 1)
    assert given.state.invocations["a"].recovery.used == 0
    assert problems(given.log) == []


@pytest.mark.parametrize(
    "given_answer",
    [
        {"leaf": {"option": "green"}, "size": "a cup or so"},
        {"leaf": "green", "size": "a cup or so"},
        '{"leaf": {"option": "green"}, "size": "a cup or so"}',
    ],
)
def test_questions_with_options_are_answered_by_their_ids(given_answer: Any) -> None:
    given = asked(begun(), LEAF, SIZE)

    say(given, people.answer(given.state, "op", "a.1.1", given_answer, by="ann"))

    result = request_in(given.then("n:a")).messages[-1].content
    assert json.loads(result or "") == {"leaf": "green", "size": "a cup or so"}


def test_a_single_question_may_be_answered_by_its_text_alone() -> None:
    given = asked(begun(), LEAF)

    say(given, people.answer(given.state, "op", "a.1.1", "white", by="ann"))

    assert given.state.invocations["a"].calls["a.1.1"].result == Payload.of({"leaf": "white"})


BAD_ANSWERS: list[tuple[Any, str]] = [
    ("green", "asks 2 questions: answer each by its id, as --option leaf=LABEL"),
    ({"leaf": "green"}, "no answer to 'size'"),
    ({}, "no answer to 'leaf', 'size'"),
    ({"leef": "green", "size": "x"}, "has no question 'leef' (did you mean 'leaf'?)"),
    ({"leaf": {"option": "grene"}, "size": "x"}, "has no option 'grene' (did you mean 'green'?)"),
    ({"leaf": {"option": "green", "more": "x"}, "size": "x"}, 'a text or {"option": LABEL}'),
    ({"leaf": 7, "size": "x"}, "not int"),
    ({"leaf": " ", "size": "x"}, "the answer to 'leaf' is blank"),
    ("[1]", "asks 2 questions"),
    (7, "a text or an object, not int"),
    (None, "a text or an object, not NoneType"),
    ({7: "green"}, "has no question 7"),
    ({"leaf": "x" * (answers.LONGEST_ANSWER + 1), "size": "x"}, "'leaf' has 100,001 characters"),
]


@pytest.mark.parametrize(("answer", "message"), BAD_ANSWERS)
def test_an_answer_to_what_was_not_asked_is_refused(answer: Any, message: str) -> None:
    given = asked(begun(), LEAF, SIZE)

    assert message in refusal(people.answer, given.state, "op", "a.1.1", answer, by="ann")


@pytest.mark.parametrize(
    ("answer", "message"),
    [({"x": "y"}, "asks for free text"), ("\n", "is blank"), ("\udcff", "is not UTF-8")],
)
def test_a_question_for_free_text_takes_text(answer: Any, message: str) -> None:
    given = asked(begun())

    assert message in refusal(people.answer, given.state, "op", "a.1.1", answer, by="ann")


def test_the_same_answer_again_changes_nothing_and_another_is_refused() -> None:
    given = asked(begun())
    say(given, people.answer(given.state, "op", "a.1.1", "green", by="ann"))

    assert people.answer(given.state, "op2", "a.1.1", "green", by="ben") is None
    told = refusal(people.answer, given.state, "op2", "a.1.1", "black", by="ben")
    assert "'a.1.1' was answered before" in told


def test_of_two_answers_at_once_the_first_counts() -> None:
    """The log keeps both; whoever was second is told when the client looks again."""
    given = asked(begun())
    both = [people.answer(given.state, one, "a.1.1", one, by=one) for one in ("green", "black")]
    for append in both:
        say(given, append)

    assert request_in(given.then("n:a")).messages[-1].content == "green"
    refusal(people.answer, given.state, "op", "a.1.1", "black", by="black")
    assert problems(given.log) == []


def test_what_is_meant_must_be_clear() -> None:
    given = begun()
    assert "does not wait for an answer: the run is running" in refusal(
        answers.request_id, given.state
    )
    asked(given)
    assert answers.request_id(given.state) == answers.request_id(given.state, "a") == "a.1.1"
    assert "no node 'b'" in refusal(answers.request_id, given.state, "b")
    assert "it waits for a.1.1" in refusal(answers.asked, given.state, "a.1.2")
    assert "no question" in refusal(people.answer, given.state, "op", "b.1.1", "x", by="")


@pytest.mark.parametrize("ended", [False, True])
def test_who_is_being_cancelled_waits_for_nobody(ended: bool) -> None:
    given = asked(begun())
    given.happened(RunCancelRequested())
    if ended:
        given.then()

    assert open_requests(given.state) == ()
    assert "waits for nobody any more" in refusal(
        people.answer, given.state, "op", "a.1.1", "green", by="ann"
    )
    assert given.then("n:a").release == Release("end")
    assert given.state.status == ("cancelled" if ended else "cancelling")


def test_a_resume_does_not_skip_a_question() -> None:
    given = asked(begun())
    given.then()

    told = refusal(people.resume, given.state, "op")
    assert "a resume does not settle" in told
    assert "a.1.1 asks: Which tea?" in told
    given.happened(RunResumed())  # by one who saw the run at another version
    assert given.state.nodes["a"].status == "paused"
    assert facts(given.decide("n:a")) == []


# --- Time ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [{"deadline_ms": 5_000}, {"timeout_ms": 5_000}])
def test_rec18_waiting_for_a_person_takes_of_the_callers_time(limit: dict[str, int]) -> None:
    own = {"timeout_ms": limit["timeout_ms"]} if "timeout_ms" in limit else {}
    given = begun({} if own else limit, **own)
    given.at(2_000)
    decision = hear(given, call("request_user_input", assistant_message="Which?"))
    assert decision.release == Release("timer", 4_000)

    late = given.at(6_000).then("n:a")

    assert facts(late) == ["NodeFailed a"]
    failed = late.events[0].data
    assert isinstance(failed, NodeFailed)
    assert failed.code == "deadline_exceeded"


def test_a_node_that_its_run_carries_pauses_the_run_and_keeps_its_time() -> None:
    given = Given(plan_of(NodePlan(id="a", work=agent(timeout_ms=5_000)), tools=TOOLS))
    given.then()
    assert given.state.nodes["a"].carried

    decision = hear(given, call("request_user_input", assistant_message="Which?"), task="")

    assert facts(decision)[-2:] == ["NodePaused a", "RunPaused"]
    assert decision.release == Release("timer", 5_000)
    assert given.decide().events == ()
    say(given, people.answer(given.state, "op", "a.1.1", "green", by="ann"))
    assert isinstance(given.decide().effect, AskModel)
    late = given.at(6_000).then()
    assert facts(late) == ["NodeFailed a", "RunFailed"]


def test_an_answer_gives_no_time_back() -> None:
    given = asked(begun(timeout_ms=5_000))
    given.at(5_000)
    say(given, people.answer(given.state, "op", "a.1.1", "green", by="ann"))

    decision = given.then("n:a")

    assert isinstance(decision.effect, AskModel)
    assert decision.effect.within_ms == 1_000


def test_a_called_agent_may_ask_and_its_callers_time_goes_on() -> None:
    given = begun(timeout_ms=5_000, subagents=("helper",))
    hear(given, call("call_subagent", subagent="helper", input="?"))
    assert isinstance(given.log[-1].data, SubagentCalled)
    given.then("s:a.1.1")

    hear(given, call("request_user_input", assistant_message="Which?"), task="s:a.1.1")

    (request,) = open_requests(given.state)
    assert (request.id, request.node, request.agent) == ("a.1.1.1.1", "a", "helper")
    assert given.decide("n:a").release == Release("timer", 5_000)
    woken = say(given, people.answer(given.state, "op", request.id, "green", by="ann"))
    assert woken == ("run/s:a.1.1", "run/")
    assert isinstance(given.then("s:a.1.1").effect, AskModel)
    assert given.state.nodes["a"].status == "running"


# --- Approval ------------------------------------------------------------------------------------


def wanting(*names: str, **more: Any) -> Given:
    """The agent has called these tools in one turn."""
    given = begun(**more)
    hear(given, *(call(name, n, what=n) for n, name in enumerate(names, 1)))
    return given


def test_a_call_that_its_tool_wants_approved_is_not_started() -> None:
    given = wanting("send")

    assert [type(event.data) for event in given.log[-3:]] == [
        ToolRequested,
        ToolApprovalRequested,
        NodePaused,
    ]
    shown = given.log[-2].data
    assert isinstance(shown, ToolApprovalRequested)
    assert (shown.tool, shown.effect, shown.arguments) == ("send", "write", Payload.of({"what": 1}))
    (request,) = open_requests(given.state)
    assert request.line == "send (a.1.1, write) waits for approval"
    given.then()
    assert given.state.reason == "awaiting_approval"
    trace = [step.text for step in fold_trace("run", given.log).steps]
    assert 'a.1.1 waits for approval: send (write) with {"what":1}' in trace


def test_a_workflow_may_ask_before_calls_of_other_tools_and_not_for_less() -> None:
    assert open_requests(wanting("save", ask_before=("tools:save",)).state)
    assert open_requests(wanting("send", ask_before=()).state)
    assert not open_requests(wanting("save").state)


def test_an_approved_call_is_started_once() -> None:
    given = wanting("send")
    append = people.approve(given.state, "op", "a.1.1", by="ann")
    assert append is not None
    assert say(given, append) == ("run/n:a", "run/")

    started = given.then("n:a")
    assert isinstance(started.effect, RunTool)
    assert people.approve(given.state, "op2", "a.1.1", by="ben") is None
    say(given, append)
    assert given.state.invocations["a"].calls["a.1.1"].status == "started"
    done = ToolOutcome(call_id="a.1.1", result=Payload.of("sent"), duration_ms=1)
    decision = given.then("n:a", done)
    assert facts(decision) == ["ToolSucceeded a", "ModelRequested a"]
    assert people.approve(given.state, "op3", "a.1.1", by="ben") is None
    assert given.state.invocations["a"].recovery.used == 0
    assert problems(given.log) == []


def test_tool2_a_denial_is_an_answer_to_the_model_and_the_call_is_never_started() -> None:
    given = wanting("send")

    say(given, people.deny(given.state, "op", "a.1.1", "too early", by="ann"))

    decision = given.then("n:a")
    assert facts(decision) == ["ModelRequested a"]
    assert json.loads(request_in(decision).messages[-1].content or "") == {
        "outcome": "not_started",
        "code": "denied",
        "message": "a person did not allow this call: too early",
    }
    assert given.state.invocations["a"].recovery.used == 0
    assert problems(given.log) == []


def test_the_first_decision_about_a_call_stands() -> None:
    given = wanting("send")
    approve = people.approve(given.state, "op", "a.1.1", by="ann")
    say(given, people.deny(given.state, "op", "a.1.1", by="ben"))
    say(given, approve)

    assert facts(given.then("n:a")) == ["ModelRequested a"]
    assert people.deny(given.state, "op", "a.1.1", by="ben") is None
    assert "was denied before" in refusal(people.approve, given.state, "op", "a.1.1", by="ann")
    assert problems(given.log) == []


def test_calls_keep_their_order_and_are_all_asked_for_at_once() -> None:
    """What ran before what does not depend on when somebody came to decide."""
    given = begun()
    names = ("look", "send", "look", "send")
    decision = hear(given, *(call(name, n) for n, name in enumerate(names, 1)))

    assert isinstance(decision.effect, RunTool)
    assert decision.effect.call_id == "a.1.1"
    assert [one.id for one in open_requests(given.state)] == ["a.1.2", "a.1.4"]
    paused = given.then("n:a", ToolOutcome(call_id="a.1.1", result=Payload.of(1), duration_ms=1))
    assert facts(paused) == ["ToolSucceeded a", "NodePaused a"]
    say(given, people.approve(given.state, "op", "a.1.4", by="ann"))
    assert given.state.nodes["a"].status == "paused", "the one before it still waits"
    say(given, people.deny(given.state, "op", "a.1.2", by="ann"))
    third = given.then("n:a")
    assert isinstance(third.effect, RunTool)
    assert third.effect.call_id == "a.1.3"
    fourth = given.then("n:a", ToolOutcome(call_id="a.1.3", result=Payload.of(1), duration_ms=1))
    assert isinstance(fourth.effect, RunTool)
    assert fourth.effect.call_id == "a.1.4"
    assert problems(given.log) == []


def test_only_what_waits_for_approval_can_be_decided_on() -> None:
    given = wanting("look", "send")
    given.then("n:a", ToolOutcome(call_id="a.1.1", result=Payload.of(1), duration_ms=1))

    for decide in (people.approve, people.deny):
        told = refusal(decide, given.state, "op", "a.1.3", by="ann")
        assert "no call 'a.1.3' (did you mean 'a.1.2'?); a.1.2 waits for approval" in told
        assert "is succeeded: it does not wait" in refusal(
            decide, given.state, "op", "a.1.1", by="ann"
        )
    given.happened(RunCancelRequested())
    assert "is cancelling" in refusal(people.approve, given.state, "op", "a.1.2", by="ann")


def test_what_was_approved_is_not_started_in_a_run_that_is_being_cancelled() -> None:
    given = wanting("send")
    say(given, people.approve(given.state, "op", "a.1.1", by="ann"))
    given.happened(RunCancelRequested())

    assert given.then("n:a").release == Release("end")
    given.then()
    assert given.state.status == "cancelled"
    assert "ToolStarted" not in [event.type for event in given.log]


def test_a_history_in_which_a_call_was_started_without_approval_is_unsound() -> None:
    given = wanting("send")
    given.happened(ToolStarted(call_id="a.1.1", execution=1), "a")
    given.happened(ToolDenied(call_id="a.1.1"), "a")
    given.happened(ToolApproved(call_id="a.1.1"), "a")
    given.happened(ToolStarted(call_id="a.1.1", execution=2), "a")
    given.happened(InputProvided(request_id="a.1.1", answer=Payload.of("x")), "a")

    found = "\n".join(one.line for one in problems(given.log))

    assert found.count("was not approved") == 2
    assert "question a.1.1 was never asked" in found


def test_a_question_asked_twice_is_unsound() -> None:
    given = asked(begun())
    given.happened(InputRequested(request_id="a.1.1", invocation="a", provider_id="p"), "a")

    assert "asked before" in "\n".join(one.line for one in problems(given.log))
