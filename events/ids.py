"""
Ids inside a run, made by counting: whoever takes over makes the same ones.
"""

from __future__ import annotations


def instance_id(node: str, index: int) -> str:
    """The `index`-th instance of a `for_each` node: `part[3]`."""
    return f"{node}[{index}]"


def template_of(node: str) -> str:
    """The node of the plan that an instance belongs to: `part` for `part[3]` and for `part`."""
    return node.partition("[")[0]


def is_instance(node: str) -> bool:
    """Whether it is the id of an instance."""
    return "[" in node


def request_id(invocation: str, number: int) -> str:
    """The `number`-th request (from 1) of an invocation: `collect#2`."""
    return f"{invocation}#{number}"


def call_id(invocation: str, turn: int, number: int) -> str:
    """The `number`-th call (from 1) of a turn: `collect.2.1`; a subagent's invocation id too."""
    return f"{invocation}.{turn}.{number}"


def invocation_of_call(call: str) -> str:
    """The invocation that made a call."""
    return call.rsplit(".", 2)[0]


OVERSEER = "overseer"
"""What stands in the overseer's invocation ids where other calls have the number of a turn."""


def overseer_invocation(invocation: str, attempt: int) -> str:
    """The overseer's own invocation for an attempt of another: `collect.overseer.2`."""
    return f"{invocation}.{OVERSEER}.{attempt}"


def overseen(invocation: str) -> str | None:
    """The invocation whose output the overseer's repairs, for one of the overseer's; else None."""
    parts = invocation.rsplit(".", 2)
    return parts[0] if len(parts) == 3 and parts[1] == OVERSEER else None


def node_of_invocation(invocation: str) -> str:
    """The node instance that an invocation, its own or a subagent's, works for."""
    return invocation.partition(".")[0]
