"""What people have changed of a workflow's settings, on every store."""

from __future__ import annotations

from typing import Any


def test_the_last_word_about_a_workflow_is_kept(subject: Any) -> None:
    store = subject.store
    assert store.kept_settings("tea") is None

    store.keep_settings("tea", b"one")
    store.keep_settings("coffee", b"other")
    store.keep_settings("tea", b"two")
    assert (store.kept_settings("tea"), store.kept_settings("coffee")) == (b"two", b"other")

    store.keep_settings("tea", None)
    store.keep_settings("tea", None)
    assert store.kept_settings("tea") is None
