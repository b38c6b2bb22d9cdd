"""What each page of `docs/reference/` goes on with on the site: Markdown, made of the code."""

from __future__ import annotations

from collections.abc import Callable

from reference.commands import commands
from reference.errors import errors
from reference.events import events
from reference.metrics import metrics
from reference.python import python
from reference.routes import routes
from reference.settings import settings
from reference.workflow import workflow

PAGES: dict[str, Callable[[], str]] = {
    "docs/reference/commands": commands,
    "docs/reference/errors": errors,
    "docs/reference/events": events,
    "docs/reference/http": routes,
    "docs/reference/metrics": metrics,
    "docs/reference/python": python,
    "docs/reference/settings": settings,
    "docs/reference/workflow": workflow,
}
