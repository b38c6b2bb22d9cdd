"""The API against its own description, by schemathesis."""

from __future__ import annotations

from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import load_all_checks, not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)

from tests.http.conftest import Api

CHECKS = [
    not_a_server_error,
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
]
STREAMS = ["/events", "/runs/{run}/events"]
"""They last until somebody hangs up; test_streams.py is about them."""
EXAMPLES = {GenerationMode.POSITIVE: 3, GenerationMode.NEGATIVE: 2}
RUN = "0"
KNOWN = {"run": "/runs/{run}", "name": "/schedules/{name}"}
"""What is there under that id: parts of paths."""


@pytest.mark.parametrize("mode", list(GenerationMode))
def test_nothing_contradicts_the_description(api: Api, mode: GenerationMode) -> None:
    """Requests that fit or do not: each is answered as the description says, and never with 500."""
    load_all_checks()
    api.post("/runs", {"workflow": "tea", "input": {"kind": "green"}, "run_id": RUN}, 202)
    daily = {"name": RUN, "workflow": "tea", "input": {"kind": "green"}, "cron": "0 17 * * *"}
    api.post("/schedules", daily)
    schema = schemathesis.openapi.from_url(f"{api.url}/openapi.json").exclude(path=STREAMS)
    asked = 0

    def answered(case: Any) -> None:
        nonlocal asked
        asked += 1
        case.call_and_validate(checks=CHECKS)

    for found in schema.get_all_operations():
        operation = found.ok()
        known = KNOWN if mode is GenerationMode.POSITIVE else {}
        fixed = {part: RUN for part, of in known.items() if of in operation.path}
        strategy = operation.as_strategy(mode, path_parameters=fixed or None)
        each = settings(
            max_examples=EXAMPLES[mode],
            derandomize=True,
            database=None,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )(given(strategy)(answered))
        try:
            each()
        except Unsatisfiable:  # nothing about it could be wrong
            assert mode is GenerationMode.NEGATIVE
    assert asked > 40
