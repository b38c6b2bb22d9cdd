"""
The world of the soak: a private Valkey that syncs every append, a model over HTTP, two groups of
workers that keep a journal, a projector, a producer, and an operator who looks at the world.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random
from typing import Any

from soak_flows import COVERED, HANDS, SCRIPT, SPENT

from mulligan.client import Client
from mulligan.errors import InvalidInput, MulliganError, StoreUnavailable, VersionConflict
from mulligan.projections.problem import Problem
from mulligan.projections.projector import Projector
from mulligan.projections.rows import STORED
from mulligan.schemas.workflow import WorkflowDefinition
from mulligan.settings import Settings
from mulligan.testing.checker import Effect, check
from mulligan.testing.journal import Journal, journaled
from mulligan.testing.misread_invoice import INPUT
from mulligan.testing.scripted_model import ScriptedModel
from mulligan.testing.server import ValkeyServer
from mulligan.testing.witness import unknown_effects
from mulligan.testing.worker import WorkerProcess, process_state

LEASE_MS, MARGIN_MS = 1_500, 300
GROUPS, PROCESSES, THREADS = 2, 2, 8
OPEN_RUNS = 16
"""As many as go on at once."""

CANCELLED = 0.06
"""The share of runs that somebody cancels."""

HERE = Path(__file__).parent


class Soak:
    """Everything that a soak starts; `close` ends it."""

    def __init__(self, folder: Path, dice: Random, resources: ExitStack) -> None:
        self.dice = dice
        self._resources = resources
        self.effects_in = folder / "effects"
        self.effects_in.touch()
        self.journal = Journal(folder / "journal")
        self._folder = folder
        self.server = resources.enter_context(ValkeyServer(appendonly="yes", appendfsync="always"))
        self.model = resources.enter_context(ScriptedModel(SCRIPT))
        self.client = Client(Settings(redis_url=self.server.url))
        resources.callback(self.client.close)
        self.client.store = journaled(self.client.store, self.journal, "producer ")
        self._plans = {
            flow["name"]: self.client.plan(WorkflowDefinition.model_validate(flow))
            for flow in (HANDS, SPENT)
        }
        self.runs: list[str] = []
        self.open: set[str] = set()
        self.reconciled = Counter[str]()
        self.dead: list[WorkerProcess] = []
        self.groups = [self.start_group() for _ in range(GROUPS)]
        self.projector = self.start_projector()
        resources.callback(lambda: self.projector.kill())

    # --- Processes -------------------------------------------------------------------------------

    def start_group(self) -> WorkerProcess:
        """One more supervisor with its workers."""
        group = WorkerProcess(
            self.server.url,
            api_base=self.model.url,
            processes=PROCESSES,
            threads=THREADS,
            lease_ms=LEASE_MS,
            lease_margin_ms=MARGIN_MS,
            drain_s=2.0,
            folder=HERE,
            journal=self._folder / "journal",
            environment={
                "SOAK_EFFECTS": str(self.effects_in),
                "PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")]),
                "MULLIGAN_LOG_LEVEL": "info",
            },
        )
        group.start()
        self._resources.callback(group.close)
        return group

    def replace_groups(self) -> None:
        """As a service manager does: one that began while there was no server has given up."""
        for at, group in enumerate(self.groups):
            if not group.supervised:
                self.groups[at] = self.start_group()
                self.dead.append(group)

    def start_projector(self) -> subprocess.Popen[bytes]:
        """One more projector."""
        return subprocess.Popen(
            [sys.executable, "-m", "mulligan.cli", "projector"],
            env={**os.environ, "MULLIGAN_REDIS_URL": self.server.url},
            stderr=subprocess.DEVNULL,
        )

    def workers(self) -> list[int]:
        """The worker processes that live, of all groups, those that drain included."""
        return [pid for group in (*self.groups, *self.dead) for pid in group.alive]

    def awake(self) -> list[int]:
        """Those of them that are not stopped."""
        return [pid for pid in self.workers() if process_state(pid) != "T"]

    # --- The producer ----------------------------------------------------------------------------

    def ask(self) -> None:
        """Ask for runs until as many are open as may be; one that got no answer is asked again."""
        self._look()
        while len(self.open) < OPEN_RUNS:
            run = f"run{len(self.runs)}"
            if not self._asked(run, len(self.runs)):
                return
            self.runs.append(run)
            self.open.add(run)

    def _asked(self, run: str, number: int) -> bool:
        try:
            if number % 7 == 5:
                self.client.enqueue("records", INPUT, run_id=run, model="scripted/any")
            elif number % 7 == 3:
                self.client.enqueue(self._plans["spent"], {}, run_id=run)
            else:
                items = {"items": list(range(number % 4))}
                self.client.enqueue(self._plans["hands"], items, run_id=run)
        except StoreUnavailable:
            return False
        return True

    def _look(self) -> None:
        for run in sorted(self.open):
            try:
                row = self.client.store.row(run)
            except StoreUnavailable:
                return
            if row is not None and row.phase == "closed":
                self.open.discard(run)

    # --- The operator ----------------------------------------------------------------------------

    def operate(self) -> None:
        """Do for each open run what a person would who sees what the world has seen."""
        for run in sorted(self.open):
            try:
                self._operate(run)
            except (StoreUnavailable, VersionConflict):
                return
            except InvalidInput:
                continue  # it has moved on meanwhile

    def cancel_one(self) -> None:
        """Somebody changes their mind."""
        if self.open and self.dice.random() < CANCELLED:
            try:
                self.client.cancel(self.dice.choice(sorted(self.open)))
            except MulliganError:
                return

    def _operate(self, run: str) -> None:
        state = self.client.status(run)
        if state.status != "paused":
            return
        match state.reason:
            case "reconciliation_required":
                for call_id, key in unknown_effects(state):
                    self._reconcile(run, call_id, key)
            case "exhausted":
                self.client.resume(run)
            case "parked":
                self.client.redrive(run)
            case _:
                pass

    def _reconcile(self, run: str, call_id: str, key: str) -> None:
        """By what the world has seen; what it has not seen may be tried again, or is let be."""
        seen = any(effect.key == key for effect in self.effects())
        chosen = "succeeded" if seen else self.dice.choice(["retry", "failed"])
        outcome: Any = chosen
        self.client.reconcile(run, call_id, outcome, by="soak", result="seen" if seen else None)
        self.reconciled[chosen] += 1

    # --- What became of it -----------------------------------------------------------------------

    def effects(self) -> list[Effect]:
        """All that the tools and functions have noted."""
        lines = self.effects_in.read_text().splitlines()
        parted = [line.rpartition(" ") for line in lines]
        return [Effect(key, int(at_ms)) for key, _, at_ms in parted]

    def settle(self, bound_s: float) -> None:
        """Let everything come to an end, with nothing in the way."""
        began_s = time.monotonic()
        while self.open and time.monotonic() - began_s < bound_s:
            self.replace_groups()
            self._look()
            self.operate()
            time.sleep(0.2)

    def wrong(self) -> list[Problem]:
        """What the checker finds; and whether rebuilt rows are the live ones."""
        store = self.client.store
        Projector(store).catch_up()
        found = check(store, journal=self.journal.entries(), effects=self.effects(), covers=COVERED)
        live = {rows.name: store.rows(rows.name, 0) for rows in STORED}
        Projector(store).rebuild(STORED, 0)
        for rows in STORED:
            if store.rows(rows.name, 0) != live[rows.name]:
                found.append(Problem("fold_differs", f"rebuilt rows of {rows.name} differ"))
        return found


@contextmanager
def soaking(folder: Path, dice: Random) -> Iterator[Soak]:
    """A fresh one, that works."""
    with ExitStack() as resources:
        made = Soak(folder, dice, resources)
        for group in made.groups:
            group.until_working(PROCESSES)
        yield made
