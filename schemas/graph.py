"""The graph of a workflow: who needs whom, in which order, and what is wrong with it."""

from __future__ import annotations

import keyword
from collections.abc import Iterable, Iterator, Mapping, Sequence

from mulligan.schemas.conditions import python_name
from mulligan.schemas.draft import Draft
from mulligan.schemas.problems import Problem, did_you_mean

__all__ = ["ancestors", "find_cycle", "graph_problems", "topological_order"]

RESERVED = frozenset(
    {"input", "item", "index", "true", "false", "null", "idempotency_key", "answers"}
)
"""Names that prompts, conditions and functions know as something else than a node."""


def graph_problems(draft: Draft) -> Iterator[Problem]:
    """Ids that clash, needs that lead nowhere, and cycles."""
    yield from _id_problems(draft)
    yield from _need_problems(draft)
    cycle = find_cycle(
        {node.id: [need for need in node.needs if need != node.id] for node in draft.nodes.values()}
    )
    if cycle:
        position = next(i for i, node in draft.nodes.items() if node.id == cycle[0])
        yield Problem(("nodes", position, "needs"), f"a cycle: {' → '.join(cycle)}")
    yield from _subagent_cycles(draft)


def _id_problems(draft: Draft) -> Iterator[Problem]:
    seen: dict[str, tuple[int, str]] = {}
    for position, node in draft.nodes.items():
        place = ("nodes", position, "id")
        spelled = python_name(node.id)
        first = seen.setdefault(spelled, (position, node.id))
        if node.id in RESERVED or keyword.iskeyword(spelled):
            yield Problem(place, f"{node.id!r} means something else in a workflow; choose another")
        elif first[0] != position and first[1] == node.id:
            yield Problem(place, f"nodes[{first[0]}] has the id {node.id!r} already")
        elif first[0] != position:
            yield Problem(
                place,
                f"{node.id!r} and {first[1]!r} are both {spelled!r} in conditions and functions; "
                "rename one",
            )


def _need_problems(draft: Draft) -> Iterator[Problem]:
    for position, node in draft.nodes.items():
        place = ("nodes", position, "needs")
        for item, need in enumerate(node.needs):
            if need == node.id:
                yield Problem(place, f"{need!r} needs itself", item=item)
            elif need not in draft.ids:
                hint = did_you_mean(need, draft.ids - {node.id})
                yield Problem(place, f"no node {need!r}{hint}", item=item)
            elif need in node.needs[:item]:
                yield Problem(place, f"{need!r} is named twice", item=item)


def _subagent_cycles(draft: Draft) -> Iterator[Problem]:
    cycle = find_cycle({name: agent.subagents for name, agent in draft.agents.items()})
    if cycle:
        yield Problem(
            ("agents", cycle[0], "subagents"), f"agents that call each other: {' → '.join(cycle)}"
        )


def find_cycle(edges: Mapping[str, Sequence[str]]) -> list[str]:
    """A cycle as its names, the first again at the end; empty if there is none."""
    left = {name: set(targets) for name, targets in edges.items()}
    while free := [name for name, targets in left.items() if not targets & left.keys()]:
        for name in free:
            del left[name]
    if not left:
        return []
    trail = [next(iter(left))]
    while trail[-1] not in trail[:-1]:
        trail.append(next(name for name in edges[trail[-1]] if name in left))
    return trail[trail.index(trail[-1]) :]


def topological_order(edges: Mapping[str, Sequence[str]]) -> list[str]:
    """
    The names so that each comes after those it needs; among equals in the order given.

    `edges` has no cycle and every name of a need.
    """
    order: dict[str, None] = {}
    waiting = list(edges)
    while waiting:
        name = next(name for name in waiting if all(need in order for need in edges[name]))
        order[name] = None
        waiting.remove(name)
    return list(order)


def ancestors(name: str, edges: Mapping[str, Iterable[str]]) -> set[str]:
    """All that `name` needs, directly or through others."""
    found: set[str] = set()
    waiting = list(edges.get(name, ()))
    while waiting:
        need = waiting.pop()
        if need not in found:
            found.add(need)
            waiting.extend(edges.get(need, ()))
    return found
