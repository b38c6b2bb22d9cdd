"""
`mulligan.check_output`, as a user calls it.
"""

from __future__ import annotations

import doctest

import pytest

import mulligan
from mulligan.completion import check
from mulligan.errors import InvalidInput


def test_the_examples_of_its_documentation_hold() -> None:
    assert (0, 2) == tuple(doctest.testmod(check))


def test_it_is_a_public_name() -> None:
    assert mulligan.check_output is check.check_output


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"type": "objekt"}, "/type"),
        ({"$ref": "https://example.org/s"}, "only references within"),
        ({"$ref": "#/$defs/x"}, "points to nothing"),
        ({"$schema": "http://json-schema.org/draft-07/schema#"}, "2020-12"),
        ({"properties": []}, "/properties"),
        ({"x": object()}, "no JSON"),
    ],
)
def test_an_unusable_schema_is_refused_with_what_to_do(
    schema: dict[str, object], said: str
) -> None:
    with pytest.raises(InvalidInput, match=r"the schema can't be used: .*\(.+\)") as caught:
        check.check_output("{}", schema)

    assert said in str(caught.value)
