"""An independent review of a draft that has passed its gates (RPR-2)."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from mulligan.events.facts import ReviewVerdict
from mulligan.quality.report import HUNDRED


class Review(msgspec.Struct, frozen=True, kw_only=True):
    """
    What a reviewer says. `draft` is the digest of the draft it was given; `digest`, where the
    reviewer names one itself, that of the draft it judged: another one makes the review stale.
    """

    verdict: ReviewVerdict
    score: Annotated[float, HUNDRED] | None = None
    strengths: tuple[str, ...] = ()
    weaknesses: tuple[str, ...] = ()
    would_change: tuple[str | dict[str, Any], ...] = ()
    veto_reasons: tuple[str, ...] = ()
    draft: str
    digest: str | msgspec.UnsetType = msgspec.UNSET
