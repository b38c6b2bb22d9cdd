"""
What the overseer answered: a repaired output, or the reason why it is none (OVR-6, OVR-7).

Only a completed turn that holds nothing but `repaired_arguments` counts; they go through the
completion protocol that the agent's own output went through.
"""

from __future__ import annotations

import json
from typing import assert_never

import msgspec

from mulligan.completion import verdict as verdicts
from mulligan.completion.evidence import MAX_RESPONSE_BYTES, from_wire
from mulligan.completion.novel import novel_paths
from mulligan.completion.protocol import complete
from mulligan.completion.verdict import Completed, Evidence, verdict_name
from mulligan.decisions.submission import MAX_CANDIDATE_BYTES
from mulligan.decisions.turn import evidence
from mulligan.events.facts import RepairFailure
from mulligan.providers.port import Answer
from mulligan.schemas.plan import AgentPlan

ARGUMENTS = "repaired_arguments"


class Repaired(msgspec.Struct, frozen=True):
    """An output, and the paths of what it says that the candidate did not."""

    completed: Completed
    novel: tuple[str, ...]


class Unrepaired(msgspec.Struct, frozen=True):
    """No output, and why; `told` says more in fixed words."""

    reason: RepairFailure
    told: str = ""
    novel: tuple[str, ...] = ()


def judge(
    agent: AgentPlan, answer: Answer, candidate: str, *, cap_sent: int | None, strict: bool
) -> Repaired | Unrepaired:
    """
    Judge an answer about `candidate`, an output of `agent`'s, that came under an output cap of
    `cap_sent` tokens; `strict`: it may say nothing that the candidate does not.
    """
    arguments = _arguments(answer, evidence(answer, cap_sent))
    if isinstance(arguments, Unrepaired):
        return arguments
    verdict = complete(arguments, agent.output_schema, Evidence("stop", terminal=True))
    if not isinstance(verdict, Completed):
        return Unrepaired("protocol_failed", verdict_name(verdict))
    novel = novel_paths(verdict.output, candidate, agent.output_schema)
    if novel and strict:
        told = "it holds what the candidate does not, and outputRepairStrict is set"
        return Unrepaired("protocol_failed", told, novel)
    # What the overseer says beside the output is nobody's message to the user.
    return Repaired(msgspec.structs.replace(verdict, assistant_message=None), novel)


def _arguments(answer: Answer, wire: Evidence) -> str | Unrepaired:
    """The repaired arguments as text, from a turn that is complete and holds nothing else."""
    size = len(answer.text.encode("utf-8", "surrogatepass"))
    if size > MAX_RESPONSE_BYTES:
        return Unrepaired("oversize")
    if answer.calls or answer.refused or answer.repetitive or not answer.terminal:
        return Unrepaired("not_completed")
    told = from_wire(size, wire)
    match told:
        case verdicts.TruncatedResponse():
            return Unrepaired("truncated")
        case verdicts.Refused() | verdicts.InvalidJson():
            return Unrepaired("not_completed")
        case None:
            return _read(answer.text, wire)
        case _:
            assert_never(told)


def _read(text: str, wire: Evidence) -> str | Unrepaired:
    verdict = complete(text, None, wire, mode="prompt")
    if isinstance(verdict, verdicts.TruncatedResponse):
        return Unrepaired("truncated")
    found = verdict.output if isinstance(verdict, Completed) else None
    arguments = found.get(ARGUMENTS) if isinstance(found, dict) else None
    if not isinstance(arguments, dict):
        return Unrepaired("missing_arguments")
    repaired = json.dumps(arguments, ensure_ascii=False)
    if len(repaired.encode("utf-8", "surrogatepass")) > MAX_CANDIDATE_BYTES:
        return Unrepaired("oversize")
    return repaired
