"""
An article by a real model that is bad at it: planned, written, judged, repaired, left to a person.

    python bench/local_model.py serve --port 8790 &
    export MULLIGAN_API_BASE=http://127.0.0.1:8790/v1
    python bench/local_article.py brief.md

The shipped workflow, but for what a model of 135 million parameters needs: its server holds it to
the schemas (mode `native`), and stops what runs on. It exits as `mulligan run` does: 0 where the
article passed, 3 where it waits for a decision.
"""

from __future__ import annotations

import sys
from typing import Any

from msgspec.structs import replace

from mulligan.client import Client
from mulligan.commands.given_input import read_input
from mulligan.commands.run import work_here
from mulligan.schemas.plan import AgentPlan, Plan, plan_digest

MODEL = "hosted_vllm/smollm2"
OUTPUT_TOKENS = 400


def held(plan: Plan) -> Plan:
    """The plan with every agent held to its schema by the server."""
    changed = replace(
        plan,
        nodes=tuple(replace(node, work=_held(node.work)) for node in plan.nodes),
        agents={name: _held(agent) for name, agent in plan.agents.items()},
    )
    return replace(changed, digest=plan_digest(changed))


def _held(work: Any) -> Any:
    if not isinstance(work, AgentPlan) or work.tools:
        return work
    return replace(work, mode="native", max_output_tokens=OUTPUT_TOKENS)


def main() -> int:
    """Work the article of the brief that is named; the exit code."""
    with Client() as client:
        plan = held(client.plan("article", model=MODEL))
    return work_here(plan, read_input(sys.argv[1]))


if __name__ == "__main__":
    sys.exit(main())
