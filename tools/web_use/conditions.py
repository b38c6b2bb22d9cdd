"""The conditions that a page can be held to."""

from __future__ import annotations

from typing import Literal, get_args

__all__ = ["CONDITIONS", "ConditionName"]

ConditionName = Literal[
    "text_contains", "text_not_contains", "url_contains", "title_contains", "element_present"
]
CONDITIONS: tuple[ConditionName, ...] = get_args(ConditionName)
