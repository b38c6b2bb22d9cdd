"""The step of `greeting.yaml`."""

from __future__ import annotations


def greet(input: dict[str, str]) -> dict[str, str]:  # noqa: A002 - what the workflow calls it
    """A greeting for whoever the input names."""
    return {"greeting": f"Hello, {input['name']}!"}
