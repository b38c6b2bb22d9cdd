"""
What pages take for granted: files that a reader would have, and runs that stand where a command
finds them. By page and by how the command begins; the page's first scene is the empty command's.
"""

from __future__ import annotations

import json
from typing import Any

from mulligan.testing.tea_article import GOOD, SOURCES, TITLE, article, script
from mulligan.testing.week_report import GOOD as STATEMENTS
from mulligan.testing.week_report import INPUT as WEEK
from mulligan.testing.week_report import script as week_script
from tests.docs.shell import Scene, Shell

TEA = {"topic": "tea"}
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
BRIEF_MD = f"""\
---
target_words: 145
sources: {json.dumps(SOURCES)}
---
{TITLE}
"""

STEPS = """\
from mulligan import InputNeeded, tool
from mulligan.quality.report import Fix, Gate, judged
from mulligan.quality.rework import Nothing


def size(answers):
    if "size" not in answers:
        options = [{"label": "small"}, {"label": "large"}]
        raise InputNeeded({"id": "size", "question": "Which size?", "options": options})
    return answers["size"]


@tool(effect="write", permission="ask")
def send(to: str) -> str:
    "Send it."
    return "sent"


@tool(effect="write", timeout_ms=100)
def save() -> str:
    "Save it."
    import time
    time.sleep(5)


def deliver():
    import time
    time.sleep(5)


def draft():
    return "# Tea\\n\\nIt is a plant.\\n"


def judge(draft):
    gate = Gate(passed=False, score=1.0, metric=1, direction="lower", threshold=0)
    return judged({"never": gate}, [Fix(gate="never", kind="never", instruction="redo")])


def rework(draft):
    return Nothing(because="there is none")
"""

SHOP = """\
def reserve():
    return 1


def ship(paid):
    return paid
"""

AGENT = "{id: collect, kind: agent, prompt: Do., tools: ['my_steps:%s']}"
FLOWS = {
    "asks": "{id: size, kind: function, call: 'my_steps:size'}",
    "waits": "{id: paid, kind: wait, signal: payment}",
    "sends": AGENT % "send",
    "saves": AGENT % "save",
    "delivers": (
        "{id: reconciled, kind: function, call: 'my_steps:deliver', effect: write, timeout: 100ms}"
    ),
    "fails": "{id: collect, kind: agent, prompt: Do.}",
    "polishes": (
        "{id: write, kind: function, call: 'my_steps:draft'}\n  - "
        "{id: polish, kind: repair, needs: [write], draft: write, gates: 'my_steps:judge',"
        " rework: 'my_steps:rework'}"
    ),
}


def stands(flow: str, status: str, run: str = "order-17", *said: dict[str, Any]) -> Scene:
    """A run that stands so, of one of the small workflows here."""

    def scene(shell: Shell) -> dict[str, str] | None:
        shell.write({"my_steps.py": STEPS})
        file = f"{flow}.yaml"
        shell.write(
            {
                file: f"name: {flow}\n"
                f"settings: {{model: scripted/any, recovery_limit: 0}}\n"
                f"nodes:\n  - {FLOWS[flow]}\n"
            }
        )
        shell.model.play({"turns": list(said)})
        name = f"{run.lower()}-{shell.next_number()}"
        shell.run(name, file, {}, status)
        return {run: name}

    return scene


def calls(name: str, rounds: int, **arguments: Any) -> dict[str, Any]:
    call = {"name": name, "arguments": arguments}
    return {"match": {"rounds": rounds}, "times": "always", "tool_calls": [call]}


def article_desk(shell: Shell) -> None:
    shell.write({"brief.md": BRIEF_MD, "draft.md": article()})
    shell.model.play({"turns": script(GOOD)})


def report_desk(shell: Shell) -> None:
    """A model that reports on the page's own week, or on ours."""
    file = shell.folder / "week.json"
    if not file.exists():
        file.write_text(json.dumps(WEEK))
    shell.model.play({"turns": week_script(json.loads(file.read_text()), STATEMENTS)})


def order(shell: Shell) -> None:
    """The page's order waits to be paid; the API is up."""
    shell.run("order-17", "flow.yaml", {}, "awaiting_signal")
    shell.serve()


def brief_desk(shell: Shell) -> None:
    shell.write({"in.json": json.dumps(TEA)})
    model(shell)
    shell.model.play(
        {
            "turns": [
                calls("search", 0, query="tea"),
                {"match": {"rounds": 1}, "times": "always", "json": {"facts": ["Tea is a plant."]}},
            ]
        }
    )


def model(shell: Shell) -> None:
    """A model for workflows that name none, as the README's exports have it."""
    shell.set("MULLIGAN_MODEL", "scripted/any")


def readme_files(shell: Shell) -> None:
    """The workflow of the README, where a page goes on with it."""
    from tests.docs.examples import ROOT, blocks

    for block in blocks("README.md", (ROOT / "README.md").read_text(encoding="utf-8")):
        if block.file is not None:
            (shell.folder / block.file).write_text(block.text, encoding="utf-8")
    brief_desk(shell)


def ended(shell: Shell) -> None:
    for run in ("order-17", "order-18"):
        shell.run(run, "brief.yaml", TEA, "completed")


UNKNOWN = stands("delivers", "reconciliation_required", "RUN")
FAILED = stands("fails", "exhausted", "order-17", {"times": "always", "text": "no"})
DECISION = stands("polishes", "awaiting_decision", "RUN")

SCENES: dict[str, dict[str, Scene]] = {
    "README.md": {
        "mulligan enqueue brief.yaml": brief_desk,
        "mulligan resume order-17": FAILED,
        "mulligan reconcile order-17": stands(
            "saves", "reconciliation_required", "order-17", calls("save", 0)
        ),
        "mulligan answer order-17": stands("asks", "awaiting_input"),
        "mulligan signal order-17": stands("waits", "awaiting_signal"),
        "mulligan approve order-17": stands(
            "sends", "awaiting_approval", "order-17", calls("send", 0, to="ann")
        ),
        "mulligan repair-log order-17": stands("polishes", "awaiting_decision"),
        "mulligan decide order-17": stands("polishes", "awaiting_decision"),
        "mulligan cancel order-17": stands("waits", "awaiting_signal"),
        "mulligan run article": article_desk,
        "mulligan repair .": article_desk,
        "echo '{": lambda shell: shell.write({"city.json": json.dumps(SCHEMA)}),
        "mulligan gates article.md": lambda shell: shell.write(
            {
                "article.md": "# Tea\n\nTea is a plant.\n",
                "my-rules.yaml": "banned: {remove: [delve-into]}\n",
            }
        ),
    },
    "docs/browser.md": {"": model},
    "docs/repair.md": {
        "": lambda shell: shell.write({"my_levels.py": STEPS, "mine.md": article()}),
        "mulligan repair-log RUN": DECISION,
        "mulligan decide RUN": DECISION,
        "mulligan run article": article_desk,
    },
    "docs/report.md": {
        "": model,
        "mulligan run report": report_desk,
        "mulligan reconcile RUN": UNKNOWN,
    },
    "docs/http.md": {"": readme_files},
    "docs/operations.md": {
        "": readme_files,
        "mulligan archive order-17": ended,
    },
    "docs/schedules.md": {"": report_desk},
    "docs/signals.md": {
        "": lambda shell: shell.write({"shop.py": SHOP}),
        "mulligan signal": order,
    },
    "docs/tools.md": {"": lambda shell: (shell.folder / "papers").mkdir()},
}
