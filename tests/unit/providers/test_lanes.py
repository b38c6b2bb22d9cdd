"""REC-34: which limits a request is under, and that wrong names of models are told."""

from __future__ import annotations

import pytest

from mulligan.errors import InvalidInput
from mulligan.events.slots import Lane
from mulligan.providers.lanes import Lanes
from mulligan.providers.port import ModelRequest
from mulligan.settings import RequestLimit

LANES = Lanes(
    {"openai/some": RequestLimit(concurrent=10), "openai": RequestLimit(per_minute=5)},
)


def lane_of(model: str, api_base: str | None = None) -> Lane | None:
    request = ModelRequest(request_id="a#1", model=model, messages=(), api_base=api_base)
    return LANES.of(request)


def test_a_models_own_limits_go_before_its_providers() -> None:
    assert lane_of("openai/some") == Lane(name="openai/some", concurrent=10)


def test_models_without_limits_of_their_own_share_their_providers() -> None:
    assert lane_of("openai/a") == lane_of("openai/b") == Lane(name="openai", per_minute=5)


def test_another_provider_is_not_limited() -> None:
    assert lane_of("groq/some") is None


def test_another_address_is_another_lane_and_its_name_holds_no_password() -> None:
    lane = lane_of("openai/some", "https://me:secret@models.example:8443/v1/")

    assert lane == Lane(name="openai/some at models.example:8443/v1", concurrent=10)
    assert LANES.named(lane.name) == lane


@pytest.mark.parametrize(
    ("name", "told"),
    [("opnai", "did you mean openai"), ("gpt-5", "one of"), ("openai/", "no model")],
)
def test_limits_for_what_is_no_model_are_refused(name: str, told: str) -> None:
    with pytest.raises(InvalidInput, match=told):
        Lanes({name: RequestLimit(concurrent=1)})
