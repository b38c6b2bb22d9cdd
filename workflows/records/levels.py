"""
How a batch is redone at each level: field → record → document → batch → new plan.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from mulligan.quality.rework import Action, Answer, Job, Jobs, Nothing, Redone
from mulligan.workflows.records.batch import Batch, value_at, with_value

MOST_RECORDS = 3
"""So many records are read again in one round: those with the most to repair."""
MISSING = (KeyError, IndexError, TypeError, ValueError)

Fixes = list[dict[str, Any]]
Stages = list[list[dict[str, Any]]]


def rework(
    level: int,
    draft: Batch,
    repairs: Fixes,
    stages: Stages,
    input: dict[str, Any],  # noqa: A002 - the workflow's name for it
) -> Answer:
    """Redo a batch at a level; of what `repairs` does not name nothing changes below level 4."""
    texts = {one["id"]: one["text"] for one in input["documents"]}
    match level:
        case 1:
            return _fields(draft, repairs, stages, texts)
        case 2:
            return _records(draft, repairs, stages, texts)
        case 3:
            return _documents(draft, _wrong_documents(draft, repairs), repairs, stages, texts)
        case 4:
            return _documents(draft, list(texts), repairs, stages, texts)
        case _:
            return _new_plan(draft, repairs, stages, texts)


# --- Fields --------------------------------------------------------------------------------------


def _fields(draft: Batch, repairs: Fixes, stages: Stages, texts: dict[str, str]) -> Answer:
    wanted = [fix for fix in repairs if fix["kind"] == "field" and fix.get("path")]
    sure = {fix["path"] for fix in wanted if fix["after"] is not None}
    unknown = [fix for fix in wanted if fix["path"] not in sure]
    if not wanted:
        return Nothing("no field is named that could be read again")
    if unknown and not stages:
        return Jobs(tuple(_field_jobs(draft, unknown, texts)))
    edits = [
        (fix["path"], fix["before"], fix["after"]) for fix in wanted if fix["after"] is not None
    ]
    asked = {fix["path"]: fix["before"] for fix in unknown}
    for result in stages[0] if stages else ():
        for field in (result["output"] or {}).get("fields", ()):
            if field["path"] in asked:
                edits.append((field["path"], asked[field["path"]], _json(field["value"])))
    return _edited(draft, edits)


def _field_jobs(draft: Batch, fixes: Fixes, texts: dict[str, str]) -> Iterator[Job]:
    for section in dict.fromkeys(fix["section"] for fix in fixes):
        own = [fix for fix in fixes if fix["section"] == section]
        fields = [
            {"path": fix["path"], "value": fix["before"], "reason": fix["instruction"]}
            for fix in own
        ]
        given = {"document": texts[_document_of(section)], "fields": fields}
        yield Job(agent="field_reader", input=given, section=section)


def _edited(draft: Batch, edits: Iterable[tuple[str, str, str]]) -> Redone:
    """Each edit where its value still is what it was; the others are skipped, and say so."""
    actions = []
    for path, before, after in edits:
        skipped = None
        try:
            if _json(value_at(draft, path)) != before:
                skipped = "the value is another by now"
            elif before == after:
                skipped = "nothing else was read"
        except MISSING:
            skipped = "the value is not there any more"
        if skipped is None:
            draft = with_value(draft, path, msgspec.json.decode(after))
        actions.append(
            Action(type="field", section=path, before=before, after=after, skipped=skipped)
        )
    return Redone(draft, tuple(actions))


# --- Records and documents -----------------------------------------------------------------------


def _records(draft: Batch, repairs: Fixes, stages: Stages, texts: dict[str, str]) -> Answer:
    counted = Counter(fix["section"] for fix in repairs if "#" in (fix["section"] or ""))
    chosen = [section for section, _ in counted.most_common(MOST_RECORDS)]
    if not chosen:
        return Nothing("no record is named that could be read again")
    if not stages:
        return Jobs(tuple(_record_job(draft, one, repairs, texts) for one in chosen))
    actions = []
    for result in stages[0]:
        path = _path_of(draft, result["section"])
        before, after = value_at(draft, path), (result["output"] or {}).get("record")
        action = Action(type="record", section=result["section"], before=before, after=after)
        if after is None:
            skipped = msgspec.structs.replace(action, skipped=f"not read: {result['error']}")
            actions.append(skipped)
            continue
        draft = with_value(draft, path, after)
        actions.append(action)
    return Redone(draft, tuple(actions))


def _record_job(draft: Batch, section: str, repairs: Fixes, texts: dict[str, str]) -> Job:
    given = {
        "document": texts[_document_of(section)],
        "record": value_at(draft, _path_of(draft, section)),
        "wrong": [fix["instruction"] for fix in repairs if fix["section"] == section],
    }
    return Job(agent="record_reader", input=given, section=section)


def _documents(
    draft: Batch, ids: list[str], repairs: Fixes, stages: Stages, texts: dict[str, str]
) -> Answer:
    if not ids:
        return Nothing("no document is named that could be read again")
    if not stages:
        return Jobs(tuple(_document_jobs(draft["instructions"], ids, repairs, texts)))
    return _read_again(draft, stages[-1], draft["instructions"])


def _new_plan(draft: Batch, repairs: Fixes, stages: Stages, texts: dict[str, str]) -> Answer:
    wrong = [f"{fix['section']}: {fix['instruction']}" for fix in repairs]
    if not stages:
        given = {"instructions": draft["instructions"], "wrong": wrong}
        return Jobs((Job(agent="planner", input=given),))
    plan = (stages[0][0]["output"] or {}).get("instructions")
    if not plan:
        return Nothing("no other instructions were found")
    if len(stages) == 1:
        return Jobs(tuple(_document_jobs(plan, list(texts), repairs, texts)))
    return _read_again(draft, stages[-1], plan)


def _document_jobs(
    instructions: str, ids: list[str], repairs: Fixes, texts: dict[str, str]
) -> Iterator[Job]:
    for one in ids:
        wrong = [
            fix["instruction"]
            for fix in repairs
            if fix["section"] and _document_of(fix["section"]) == one
        ]
        given = {"instructions": instructions, "document": texts[one], "wrong": wrong}
        yield Job(agent="document_reader", input=given, section=one)


def _read_again(draft: Batch, results: list[dict[str, Any]], instructions: str) -> Redone:
    read = {one["section"]: (one["output"] or {}).get("records") for one in results}
    actions = []
    for document in draft["documents"]:
        if document["id"] not in read:
            continue
        after = read[document["id"]]
        actions.append(
            Action(
                type="document",
                section=document["id"],
                before=document["records"],
                after=after,
                skipped="not read" if after is None else None,
            )
        )
    documents = [
        {**one, "records": read[one["id"]]} if read.get(one["id"]) is not None else one
        for one in draft["documents"]
    ]
    return Redone({"instructions": instructions, "documents": documents}, tuple(actions))


def _wrong_documents(draft: Batch, repairs: Fixes) -> list[str]:
    named = {_document_of(fix["section"]) for fix in repairs if fix["section"]}
    return [one["id"] for one in draft["documents"] if one["id"] in named]


def _document_of(section: str) -> str:
    return section.rpartition("#")[0] or section


def _path_of(draft: Batch, section: str) -> str:
    name, _, number = section.rpartition("#")
    at = next(i for i, one in enumerate(draft["documents"]) if one["id"] == name)
    return f"/documents/{at}/records/{int(number) - 1}"


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
