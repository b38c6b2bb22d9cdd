"""
Which faults are inflicted where: the cells of the fault matrix, which tests/faults plays by real
processes on a real server.
"""

from __future__ import annotations

from typing import Literal, assert_never, get_args

import msgspec

from mulligan.events.tasks import KINDS

Fault = Literal["killed", "paused", "raised", "reply lost"]
FAULTS: tuple[Fault, ...] = get_args(Fault)

Flow = Literal["every", "glance", "publish", "publish_beside", "agents", "functions", "records"]
"""What is worked meanwhile: a file of `tests/projects/probe`, or the workflow that ships."""


class Spot(msgspec.Struct, frozen=True):
    """
    Where a fault strikes: a point (see `mulligan.events.crash_points`), the actor that comes to
    it, at which of its arrivals, and what that arrival is of, where a point has several.
    """

    actor: str
    point: str
    arrival: int = 1
    of: str = ""
    flow: Flow = "every"

    @property
    def name(self) -> str:
        """How the page names it."""
        return f"`{self.point}`, {self.of}" if self.of else f"`{self.point}`"

    @property
    def armed(self) -> str:
        """As `MULLIGAN_CRASH_AT` names it; actors without tasks have points of their own."""
        place = f"{self.actor}/{self.point}" if self.actor in KINDS else self.point
        return f"{place}:{self.arrival}"


class Cell(msgspec.Struct, frozen=True):
    """A fault at a spot."""

    spot: Spot
    fault: Fault

    @property
    def id(self) -> str:
        """For a test's name."""
        parts = (self.spot.actor, self.spot.point, self.spot.of, self.fault)
        return "-".join(part.replace(" ", "_") for part in parts if part)


def _of_tasks(actor: str, of: str = "", flow: Flow = "every") -> list[Spot]:
    """What every actor of tasks comes to."""
    points = ("task.claimed", "append.before", "append.after")
    return [Spot(actor, point, 1, of, flow) for point in points]


def _around(
    actor: str, what: str, arrival: int = 1, of: str = "", flow: Flow = "every"
) -> list[Spot]:
    """Before and after something that an actor does."""
    return [Spot(actor, f"{what}.{when}", arrival, of, flow) for when in ("before", "after")]


SPOTS: tuple[Spot, ...] = (
    *_of_tasks("run"),
    Spot("run", "append.before", 2, "the run's end", "glance"),
    *_around("run", "function", 1, "idempotent"),
    *_around("run", "function", 1, "write", "publish"),
    *_around("run", "gates", flow="records"),
    *_of_tasks("node", "an agent", "agents"),
    *_of_tasks("node", "a function", "functions"),
    *_around("node", "model"),
    *_around("node", "tool", 1, "read"),
    *_around("node", "tool", 2, "idempotent"),
    *_around("node", "tool", 3, "write that can be verified"),
    *_around("node", "tool", 4, "write"),
    *_around("node", "function", 1, "write", "publish_beside"),
    *_of_tasks("subagent"),
    *_around("subagent", "model"),
    *_of_tasks("overseer"),
    *_around("overseer", "model"),
    *_of_tasks("repair", flow="records"),
    *_around("repair", "rework", flow="records"),
    Spot("broker", "message.read"),
    Spot("broker", "hint.before"),
    Spot("leases", "leases.renewed"),
    Spot("reconciler", "sweep.after"),
    *_around("projector", "rows"),
)  # fmt: skip
"""Every spot, in the page's order."""

CELLS = tuple(Cell(spot, fault) for spot in SPOTS for fault in FAULTS)

EVERYDAY = frozenset(
    {
        "node-tool.after-write-killed",
        "node-tool.before-write-paused",
        "subagent-model.after-raised",
        "run-append.before-the_run's_end-reply_lost",
        "projector-rows.after-killed",
    }
)
"""The cells that `make test` plays, by id: each fault where it matters most."""

Outcome = Literal["goes on", "waits, then goes on", "asks a person", "parked"]


def expected(cell: Cell) -> Outcome:
    """What has to come of a cell."""
    spot = cell.spot
    match cell.fault:
        case "killed" if spot.of == "write":
            return "asks a person"
        case "paused" if spot.of == "write":
            # That a function was not run is for a person to read; to a model it is told.
            return "asks a person" if spot.point == "function.before" else "waits, then goes on"
        case "raised" if _parks(spot):
            return "parked"
        case "killed" | "paused" | "raised" | "reply lost":
            return "goes on"
        case _:
            assert_never(cell.fault)


def _parks(spot: Spot) -> bool:
    """
    Whether an error there parks a task: if it is being worked, and not before or after. An overseer
    parks nothing: it has failed, and its agent is asked again.
    """
    if spot.point == "append.after":
        return spot.actor in ("node", "subagent")  # the first append of others lets go of the task
    return spot.actor in ("run", "node", "subagent", "repair") and spot.point != "task.claimed"


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """
    How a cell ended, and, after a kill, how many milliseconds of the server's clock passed until
    its run went on in another process.
    """

    cell: str
    outcome: Outcome
    resumed_ms: int | None = None
