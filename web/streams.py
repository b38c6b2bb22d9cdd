"""Events as they come, as server-sent events."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Query
from starlette.responses import Response

from mulligan.events.codec import EventLine
from mulligan.events.deltas import Delta
from mulligan.feed import Gap, SetBack, Unreadable
from mulligan.projections.live import Void
from mulligan.watch import require
from mulligan.web.answers import PROBLEMS, REF, Json
from mulligan.web.feed_reading import FeedPlace
from mulligan.web.problems import problem
from mulligan.web.run_reading import End, Place, RunSetBack, ended
from mulligan.web.sse import MEDIA_TYPE, EventStream
from mulligan.web.surroundings import Around, RunId

RECORDS = (EventLine, Delta, Void, Gap, SetBack, RunSetBack, Unreadable, End)
"""What a record's data may be."""

router = APIRouter(tags=["events"], default_response_class=Json)

LastEventId = Annotated[
    str | None,
    Header(description="The id of the last record that was received: go on after it."),
]
Follow = Annotated[bool, Query(description="Wait for more; else end with what is there.")]


def _streams() -> dict[int | str, dict[str, Any]]:
    refs = [{"$ref": REF.format(name=shape.__name__)} for shape in RECORDS]
    description = "Records; the data of each is one of these, as JSON in one line."
    content = {MEDIA_TYPE: {"schema": {"type": "string"}, "x-records": {"anyOf": refs}}}
    return {200: {"description": description, "content": content}, **PROBLEMS}


@router.get(
    "/runs/{run}/events",
    response_class=Response,
    responses={**_streams(), 204: {"description": "The run has ended, and all was received."}},
)
async def run_events(
    around: Around,
    run: RunId,
    last_event_id: LastEventId = None,
    after: Annotated[int, Query(ge=0, le=2**53, description="Begin after this version.")] = 0,
    follow: Follow = True,
    deltas: Annotated[bool, Query(description="Also what models say, as they say it.")] = False,
) -> Response:
    """
    A run's events until it has ended. With `deltas` also what its models say, candidates that
    nobody has judged among it; none of that is stored, and none of it has an id.
    """
    store = around.client.store
    place = Place.of(last_event_id) if last_event_id else Place(after)
    await around.tails.read(partial(require, store, run))
    over = await around.tails.read(partial(ended, store, run, place))
    if last_event_id and over:
        return Response(status_code=204)
    if around.tails.full:
        return _full()
    return EventStream(
        around.tails.run(run, place, live=deltas, follow=follow), around.tails.counted
    )


@router.get("/events", response_class=Response, responses=_streams())
async def all_events(
    around: Around,
    last_event_id: LastEventId = None,
    start: Annotated[
        Literal["beginning", "now"], Query(description="Without a Last-Event-ID.")
    ] = "beginning",
    follow: Follow = True,
) -> Response:
    """
    The events of all runs, as far as the feed refers to them: what was trimmed off it is told as a
    `gap`.
    """
    if last_event_id:
        place = FeedPlace.of(last_event_id)
    elif start == "now":
        place = await around.tails.read(partial(FeedPlace.now, around.client.store))
    else:
        place = FeedPlace()
    if around.tails.full:
        return _full()
    return EventStream(around.tails.all(place, follow=follow), around.tails.counted)


def _full() -> Response:
    return problem(503, "too_many_streams", "as many follow as this server takes; ask another one")
