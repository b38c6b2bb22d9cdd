"""The cards of live workers, on every store."""

from __future__ import annotations

from typing import Any


def test_a_worker_lives_as_long_as_it_says(subject: Any) -> None:
    store = subject.store
    assert store.workers() == {}

    assert store.announce("one", b"card", 1_000) == {"one": b"card"}
    assert store.announce("two", b"other", 5_000) == {"one": b"card", "two": b"other"}
    subject.pass_time(2_000)

    assert store.workers() == {"two": b"other"}


def test_a_later_card_takes_the_place_of_the_former(subject: Any) -> None:
    subject.store.announce("one", b"card", 1_000)
    subject.store.announce("one", b"new", 10_000)
    subject.pass_time(2_000)

    assert subject.store.workers() == {"one": b"new"}


def test_who_ends_is_forgotten_at_once(subject: Any) -> None:
    subject.store.announce("one", b"card", 60_000)

    assert subject.store.announce("one", b"", 0) == {}
    assert subject.store.workers() == {}
