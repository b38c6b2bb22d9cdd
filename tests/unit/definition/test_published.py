"""The published JSON Schema of the workflow file."""

from __future__ import annotations

from pathlib import Path

import jsonschema
import pytest

import mulligan.schemas.publish as publish
from mulligan.schemas.workflow import workflow_json_schema
from mulligan.schemas.yaml_source import read_document


@pytest.mark.parametrize("name", sorted(publish.PUBLISHED))
def test_the_published_file_is_what_the_code_says(name: str) -> None:
    text = (Path(publish.__file__).with_name("json") / name).read_text(encoding="utf-8")
    assert text == publish.published_text(name), "run python -m mulligan.schemas.publish"


def test_the_published_schema_takes_the_contract_example_and_refuses_unknown_keys() -> None:
    validator = jsonschema.Draft202012Validator(workflow_json_schema())
    document = read_document(Path(__file__).with_name("brief.yaml").read_bytes()).value
    validator.validate(document)
    for settings in ({"output_repair_model": "m"}, {"outputRepairModel": "m", "deadline": "10m"}):
        validator.validate(document | {"settings": settings})
    for broken in (document | {"nods": []}, document | {"settings": {"deadline": "soon"}}):
        assert not validator.is_valid(broken)
