import json
from typing import Any

import jsonschema

from mulligan.completion.verdict import *


def complete(
    raw: str,
    schema: Any,
    evidence: Evidence,
    *,
    mode: str = "tool",
    accept_missing_closers: bool = False,
    scalar_for_list: bool = False,
) -> Verdict:
    try:
        v = json.loads(raw)
    except ValueError:
        return InvalidJson()
    m = None
    if mode == "tool":
        if not isinstance(v, dict) or "output" not in v:
            return WrongEnvelope()
        m = v.get("assistant_message")
        v = v["output"]
    try:
        jsonschema.validate(v, schema)
    except jsonschema.ValidationError:
        return SchemaViolation()
    return Completed(v, m)
