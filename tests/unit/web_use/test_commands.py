"""What a model's arguments stand for, before any browser sees them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from mulligan.schemas.run_context import RunContext
from mulligan.schemas.strict import strict_schema
from mulligan.schemas.web_rules import WebRules
from mulligan.tools.web_use.caller import Caller
from mulligan.tools.web_use.client import BridgeClient, use
from mulligan.tools.web_use.codes import WebUseFailed
from mulligan.tools.web_use.commands import (
    ACTIONS,
    COMMANDS,
    Click,
    Observe,
    effect_of,
    flat,
    parse,
)
from mulligan.tools.web_use.conditions import CONDITIONS
from mulligan.tools.web_use.tool import web_use

ON_ELEMENT = {"command": "act", "page": "p", "observation": "o", "element": "e1"}
GIVEN: dict[str, dict[str, Any]] = {
    "list_pages": {"command": "list_pages"},
    "observe": {"command": "observe", "url": "http://a.test/"},
    "verify": {
        "command": "verify",
        "page": "p",
        "conditions": [{"condition": name, "value": "x"} for name in CONDITIONS],
    },
    "close": {"command": "close", "page": "p"},
    "navigate": {"command": "act", "action": "navigate", "url": "http://a.test/"},
    "click": {**ON_ELEMENT, "action": "click"},
    "type": {**ON_ELEMENT, "action": "type", "text": ""},
    "press": {**ON_ELEMENT, "action": "press", "key": "Enter", "element": None},
    "scroll": {**ON_ELEMENT, "action": "scroll", "dy": -5},
    "hover": {**ON_ELEMENT, "action": "hover"},
    "select": {**ON_ELEMENT, "action": "select", "values": ["a"]},
    "upload": {**ON_ELEMENT, "action": "upload", "files": ["a.txt"]},
    "screenshot": {"command": "act", "action": "screenshot", "page": "p"},
}
CALLER = Caller(owner="run-1:n", action="run-1:n.1.1")


@pytest.mark.parametrize("name", GIVEN)
def test_each_command_is_read_and_written_the_same(name: str) -> None:
    command = parse(GIVEN[name])

    assert command == parse(flat(command))
    assert command == parse(msgspec.json.decode(msgspec.json.encode(flat(command))))


def test_all_commands_and_actions_are_among_them() -> None:
    """web1: five commands, nine actions, and no `open`."""
    assert {*COMMANDS, *ACTIONS} == {*GIVEN, "act"}
    assert 14 == len(GIVEN) + 1


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        ({}, "invalid_command", "list_pages"),
        ({"command": "open", "url": "http://a.test"}, "invalid_command", "list_pages"),
        ({"command": "act"}, "invalid_arguments", "navigate"),
        ({"command": "act", "action": "drag"}, "unsupported_action", "navigate"),
        ({"command": "observe"}, "invalid_arguments", "a page or a url"),
        ({"command": "observe", "page": "p", "url": "u"}, "invalid_arguments", "navigate"),
        ({**ON_ELEMENT, "action": "type"}, "invalid_arguments", "a text or a secret"),
        ({**ON_ELEMENT, "action": "click", "key": "x"}, "invalid_arguments", "key"),
        ({"command": "close", "page": 5}, "invalid_arguments", "page"),
        ({"command": "observe", "url": "http://a.test/\ud800"}, "invalid_arguments", "Unicode"),
        ({"command": "observe", "\udfff": "x"}, "invalid_arguments", "Unicode"),
        ({"command": "\ud800"}, "invalid_arguments", "Unicode"),
        ({"command": "verify", "page": "p", "conditions": []}, "invalid_arguments", "conditions"),
        (
            {
                "command": "verify",
                "page": "p",
                "conditions": [{"condition": "canary", "value": "x"}],
            },
            "invalid_arguments",
            "text_contains",
        ),
    ],
)
def test_what_is_none_is_refused_by_its_own_code(
    arguments: dict[str, Any], code: str, told: str
) -> None:
    """web6: before anything is done, and without a quote of what was given."""
    with pytest.raises(WebUseFailed) as failed:
        parse(arguments)

    assert code == failed.value.code
    assert told in str(failed.value)
    assert "canary" not in str(failed.value)


@pytest.mark.parametrize("name", GIVEN)
def test_the_plan_and_the_bridge_agree_on_what_may_be_repeated(name: str) -> None:
    assert effect_of(parse(GIVEN[name])) == web_use.spec().effect_of(GIVEN[name])


def test_the_strict_schema_names_every_command_and_action() -> None:
    """read2: all are required there, what is optional may be null."""
    strict = strict_schema(web_use.parameters)

    assert list(COMMANDS) == strict["properties"]["command"]["enum"]
    assert list(ACTIONS) == strict["properties"]["action"]["anyOf"][0]["enum"]
    assert set(strict["properties"]) == set(strict["required"])
    assert "run_context" not in strict["properties"]


def test_a_caller_has_an_id_for_each_step_of_a_function() -> None:
    """web9: the same call has the same id whenever it is made again."""
    context = RunContext(run="r", call="n.1.2", owner="n", origin_window="w")

    assert "r:n.1.2" == Caller.of_run(context).action == Caller.of_run(context).action
    assert "r:n.1.2/save" == Caller.of_run(context, "save").action
    assert "r:n" == Caller.of_run(context, "save").owner
    assert Caller.outside("s", "1", rules=WebRules()).make_window


def test_no_two_callers_have_one_id() -> None:
    """web9: or one would be given the other's receipt, and its page tokens."""

    def run(name: str, call: str, step: str = "") -> Caller:
        return Caller.of_run(RunContext(run=name, call=call, owner=call), step)

    def outside(session: str, call: str) -> Caller:
        return Caller.outside(session, call, rules=WebRules())

    callers = [
        *(outside("a", "b:c"), outside("a:b", "c"), outside("a%3Ab", "c"), outside("a", "b%3Ac")),
        *(run("session", "a:b:c"), run("session:a", "b:c"), run("%73ession", "a:b:c")),
        *(run("r", "n", "fill a:b"), run("r:n/fill a", "b")),
    ]

    assert len(callers) == len({one.action for one in callers})
    owners = {one.owner for one in callers if one.run is None}
    assert not owners & {one.owner for one in callers if one.run is not None}
    assert ("session:s:1", "session:s") == (outside("s", "1").action, outside("s", "1").owner)


def test_without_a_bridge_it_says_so(tmp_path: Path) -> None:
    """web6: desktop_unavailable, which is no success of the call around it."""
    path = tmp_path / "none.sock"

    with pytest.raises(WebUseFailed, match="list_pages"), BridgeClient(path) as client:
        client.call(Click(page="p", observation="o", element="e1"), CALLER)
    result = use(path, {"command": "list_pages"}, CALLER)

    assert (True, "desktop_unavailable") == (result.is_error, result.code)
    assert Observe(url="http://a.test/") == parse(GIVEN["observe"])
