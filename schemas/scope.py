"""
Whether the names that prompts, conditions and `for_each` use lead to something.

A node can name `input` and all that it needs, directly or through others. Naming a node does not
make it a need: what a node waits for stands in `needs` alone, and a name that is missing there is
an error with that hint.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from mulligan.schemas.conditions import condition_problem, python_name, references_of
from mulligan.schemas.draft import Draft, output_outline
from mulligan.schemas.graph import ancestors
from mulligan.schemas.outline import ANYTHING, part, plain_type
from mulligan.schemas.problems import Place, Problem, did_you_mean, place_name
from mulligan.schemas.references import Reference, parse_reference
from mulligan.schemas.templates import placeholders
from mulligan.schemas.workflow import AgentNode, AnyNode, RepairNode

__all__ = ["Scope", "offered_names", "scope_of", "scope_problems", "with_item"]


class Scope(NamedTuple):
    """The names that one node can use, each with the schema of its value."""

    values: Mapping[str, dict[str, Any]]
    declared: frozenset[str]

    def problem(self, reference: Reference) -> str | None:
        """Why the reference leads nowhere, or None."""
        name = reference.name
        if name not in self.values:
            return self._unknown(name)
        root: Any = self.values[name]
        schema: Any = root
        for taken, step in enumerate(reference.steps):
            schema, problem = part(schema, step, root)
            if problem is not None:
                return f"{place_name((name, *reference.steps[:taken]))} {problem}"
        return None

    def schema(self, reference: Reference) -> tuple[Any, dict[str, Any]]:
        """The schema of what a valid reference leads to, and the root its `$ref`s start from."""
        root = self.values[reference.name]
        schema: Any = root
        for step in reference.steps:
            schema, _ = part(schema, step, root)
        return schema, root

    def _unknown(self, name: str) -> str:
        if name in ("item", "index"):
            return f"{name!r} is there only on a node with for_each"
        if name in self.declared:
            return f"{name!r} is not among what this node needs; add it to its needs"
        return f"nothing here is named {name!r}{did_you_mean(name, self.values)}"


def scope_of(node: AnyNode, draft: Draft) -> Scope:
    """What a node can use, without `item` and `index`: `input` and all that it needs."""
    nodes = draft.by_id()
    edges = {name: other.needs for name, other in nodes.items()}
    needed = ancestors(node.id, edges)
    if not needed <= draft.ids:
        # What it needs is misspelt, and reported there: guess nothing of what it can't use.
        return Scope(dict.fromkeys(["input", *draft.ids], ANYTHING), draft.ids)
    reached = sorted(needed - {node.id})
    values = {name: output_outline(nodes.get(name)) for name in reached}
    return Scope({"input": draft.input_schema or ANYTHING} | values, draft.ids)


def scope_problems(draft: Draft) -> Iterator[Problem]:
    """Every reference of a definition that leads nowhere."""
    for position, node in draft.nodes.items():
        place = ("nodes", position)
        scope = scope_of(node, draft)
        yield from _condition_problems(node.when, (*place, "when"), scope)
        yield from _for_each_problems(node.for_each, (*place, "for_each"), scope)
        if isinstance(node, RepairNode):
            own = with_item(node, scope)
            yield from _reference_problems(node.draft, (*place, "draft"), own)
            if node.quality is not None:
                yield from _reference_problems(node.quality, (*place, "quality"), own)
        if isinstance(node, AgentNode):
            yield from _prompt_problems(node.prompt, (*place, "prompt"), with_item(node, scope))
            yield from _plain_problems(node.system, (*place, "system"), draft)
    for name, agent in draft.agents.items():
        yield from _plain_problems(agent.prompt, ("agents", name, "prompt"), draft)
        yield from _plain_problems(agent.system, ("agents", name, "system"), draft)


def offered_names(node: AnyNode, draft: Draft) -> tuple[str, ...]:
    """The names by which a node's values are offered to its functions."""
    return tuple(map(python_name, with_item(node, scope_of(node, draft)).values))


def with_item(node: AnyNode, scope: Scope) -> Scope:
    """The scope of one item's work: `item` and `index` too, if the node has `for_each`."""
    if node.for_each is None:
        return scope
    reference = parse_reference(node.for_each)
    item: Any = ANYTHING
    if reference is not None and scope.problem(reference) is None:
        schema, root = scope.schema(reference)
        if plain_type(schema, root) == "array":
            item, _ = part(schema, 0, root)
            item = item | {"$defs": root["$defs"]} if "$defs" in root and item else item
    values = {**scope.values, "item": item, "index": {"type": "integer"}}
    return Scope(values, scope.declared)


def _prompt_problems(prompt: str, place: Place, scope: Scope) -> Iterator[Problem]:
    for reference, line_offset in placeholders(prompt):
        problem = scope.problem(reference)
        if problem is not None:
            text = f"{{{reference.text}}}"
            message = f"{text}: {problem}; write {{{text}}} for braces that are text"
            yield Problem(place, message, line_offset)


def _plain_problems(text: str | None, place: Place, draft: Draft) -> Iterator[Problem]:
    """Placeholders in texts that are sent as they are: `system`, and a called agent's prompt."""
    for reference, line_offset in placeholders(text or ""):
        if reference.name in {"input", "item", "index", *draft.ids}:
            message = (
                f"{{{reference.text}}} would be sent as it is: only a node's prompt has "
                "placeholders (a called agent gets its input as the user's message)"
            )
            yield Problem(place, message, line_offset)


def _for_each_problems(path: str | None, place: Place, scope: Scope) -> Iterator[Problem]:
    if path is None:
        return
    reference = parse_reference(path)
    if reference is None:
        yield Problem(place, f"{path!r} is not a reference such as collect.items")
        return
    problem = scope.problem(reference)
    if problem is not None:
        yield Problem(place, problem)
        return
    kind = plain_type(*scope.schema(reference))
    if kind not in (None, "array"):
        yield Problem(place, f"{path} is of the type {kind}; for_each takes a list")


def _reference_problems(path: str, place: Place, scope: Scope) -> Iterator[Problem]:
    reference = parse_reference(path)
    if reference is None:
        yield Problem(place, f"{path!r} is not a reference such as write.text")
        return
    problem = scope.problem(reference)
    if problem is not None:
        yield Problem(place, problem)


def _condition_problems(expression: str | None, place: Place, scope: Scope) -> Iterator[Problem]:
    if expression is None:
        return
    problem = condition_problem(expression)
    if problem is not None:
        yield Problem(place, problem)
        return
    spelled = Scope(
        {python_name(name): schema for name, schema in scope.values.items()},
        frozenset(map(python_name, scope.declared)),
    )
    for reference in references_of(expression):
        unknown = spelled.problem(reference)
        if unknown is not None:
            yield Problem(place, unknown)
