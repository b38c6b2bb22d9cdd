"""Why a command of `web_use` failed: each code has a cause of its own (WEB-6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

from mulligan.errors import ToolError

if TYPE_CHECKING:
    from mulligan.tools.web_use.results import Receipt

__all__ = ["FAILURE_CODES", "FailureCode", "WebUseFailed"]

FailureCode = Literal[
    "desktop_unavailable",
    "page_target_unavailable",
    "page_context_stale",
    "page_context_consumed",
    "page_context_owner_mismatch",
    "page_in_use",
    "stale_observation",
    "target_lost",
    "unsupported_url",
    "invalid_command",
    "invalid_arguments",
    "unsupported_action",
    "timeout",
    "needs_user",
    "permission_denied",
    "verification_failed",
    "backend_action_failed",
    "cancelled",
]
FAILURE_CODES: tuple[FailureCode, ...] = get_args(FailureCode)


class WebUseFailed(ToolError):
    """
    A command did not do what it was asked for. `code` is a `FailureCode`, as `failure` is.

    `receipt` is there if an act had begun. With `unknown` its input was or may have been sent and
    nothing shows what became of it: it must not be repeated.
    """

    def __init__(self, code: FailureCode, message: str, *, receipt: Receipt | None = None) -> None:
        super().__init__(
            code, message, unknown=receipt is not None and receipt.outcome == "unknown"
        )
        self.failure: FailureCode = code
        self.receipt = receipt
