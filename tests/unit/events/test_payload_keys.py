"""Payload keys: lists of them, what is told of them, and what a wrapped key is worth elsewhere."""

from __future__ import annotations

import secrets
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from mulligan.errors import EnvironmentUnfit, EventUnreadable, InvalidInput
from mulligan.events.data_key import DataKey
from mulligan.events.encrypted_intents import EncryptedIntents
from mulligan.events.folder_intents import FolderIntents
from mulligan.events.intents import Intent
from mulligan.events.payload_keys import KEY_BYTES, PayloadKeys, new_key, payload_keys
from mulligan.events.vault import Vault, unwrapped, wrapped
from mulligan.settings import Settings, load_settings

A, B = new_key("a"), new_key("b")


def keys_of(text: str) -> PayloadKeys:
    keys = payload_keys(text)
    assert keys is not None
    return keys


@pytest.mark.parametrize(
    "text",
    [f"{A},{B}", f"{A}\n{B}\n", f"# first\n{A}\n\n  # then\n{B}", f" {A} , {B} "],
    ids=["commas", "lines", "remarks", "blanks"],
)
def test_a_list_stands_on_one_line_or_on_several(text: str) -> None:
    keys = keys_of(text)

    assert [key.name for key in keys] == ["a", "b"]
    assert keys.first.name == "a"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "entry 1 is not NAME:KEY"),
        (f"{A},b", "entry 2 is not NAME:KEY"),
        (f"{A},b:{'c2VjcmV0' * 4}", "entry 2 is not NAME:KEY"),
        (f"{A},a/b:{B[2:]}", "entry 2 is not NAME:KEY"),
        (f"{A},{new_key('a')}", "the same name stands there twice"),
        (f"{A},b:{A[2:]}", "the same key stands there under two names"),
    ],
    ids=["empty", "no key", "short", "name", "same name", "same key"],
)
def test_a_list_that_is_none_is_refused_without_a_word_of_it(text: str, told: str) -> None:
    with pytest.raises(InvalidInput, match=told) as refused:
        payload_keys(text)

    assert not any(part[2:] in str(refused.value) for part in text.split(",") if len(part) > 2)


def test_a_name_that_no_key_can_have_is_refused() -> None:
    with pytest.raises(InvalidInput, match="letters, digits"):
        new_key("a key")


def test_no_key_is_shown() -> None:
    keys = keys_of(A)
    data_key = DataKey("run", "id", secrets.token_bytes(KEY_BYTES))
    shown = f"{keys!r} {keys.first!r} {keys.first.told} {data_key!r} {Settings(payload_keys=A)!r}"

    assert A[2:] not in shown
    assert keys.first.fingerprint in shown


def test_a_wrapped_key_is_worth_nothing_for_another_run_or_with_another_key() -> None:
    keys, secret = keys_of(A), secrets.token_bytes(KEY_BYTES)
    record = wrapped(keys, "run", "id", secret)

    assert unwrapped(keys, "run", record) == secret
    with pytest.raises(EventUnreadable, match="damaged, or tampered"):
        unwrapped(keys, "another", record)
    with pytest.raises(EventUnreadable, match="the payload key a is not here"):
        unwrapped(keys_of(B), "run", record)
    with pytest.raises(EventUnreadable, match="the payload key a is another one here"):
        unwrapped(keys_of(new_key("a")), "run", record)


def test_what_is_sealed_opens_in_its_own_place_only_and_never_looks_the_same() -> None:
    secret = secrets.token_bytes(KEY_BYTES)
    key, other = DataKey("run", "id", secret), DataKey("other", "id", secret)
    sealed = key.seal(b"text", "row")

    assert key.open(sealed, "row") == b"text"
    assert key.seal(b"text", "row") != sealed
    for opener, data, place in (
        (key, sealed, "value"),
        (other, sealed, "row"),
        (key, sealed[:-1] + bytes([sealed[-1] ^ 1]), "row"),
        (key, b"", "row"),
    ):
        with pytest.raises(EventUnreadable, match="tampered with"):
            opener.open(data, place)


def test_a_digest_is_replaced_by_what_nobody_without_the_key_can_guess() -> None:
    one, two = (DataKey("run", "id", secrets.token_bytes(KEY_BYTES)) for _ in range(2))

    assert one.name("digest") == one.name("digest") != two.name("digest")


def test_an_intents_digest_is_told_with_the_key_alone(tmp_path: Path) -> None:
    record: list[bytes | None] = [
        wrapped(keys_of(A), "run", "id", secrets.token_bytes(KEY_BYTES)).text
    ]

    def stored(runs: Sequence[str]) -> Sequence[bytes | None]:
        return record

    folder, intent = (
        FolderIntents(tmp_path),
        Intent(run="run", call_id="c", execution=1, digest="d"),
    )
    with_key = EncryptedIntents(folder, Vault(keys_of(A), stored))

    assert with_key.note(intent)
    assert not with_key.note(intent), "noted before"
    assert with_key.of_run("run") == [intent]
    assert [one.digest for one in EncryptedIntents(folder, Vault(None, stored)).of_run("run")] == [
        ""
    ]
    assert list(with_key.runs()) == ["run"]


def test_keys_stand_in_the_variable_or_in_a_file_and_not_in_both(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "keys"
    file.write_text(f"# since December\n{A}\n")
    monkeypatch.delenv("MULLIGAN_PAYLOAD_KEYS", raising=False)
    monkeypatch.setenv("MULLIGAN_PAYLOAD_KEYS_FILE", str(file))
    assert keys_of(load_settings().payload_keys_text() or "").first.name == "a"

    monkeypatch.setenv("MULLIGAN_PAYLOAD_KEYS", B)
    with pytest.raises(InvalidInput, match="both set"):
        load_settings().payload_keys_text()

    monkeypatch.setenv("MULLIGAN_PAYLOAD_KEYS", f"{B},short:secret")
    with pytest.raises(InvalidInput, match="MULLIGAN_PAYLOAD_KEYS must be") as refused:
        load_settings()
    assert "secret" not in str(refused.value)

    monkeypatch.delenv("MULLIGAN_PAYLOAD_KEYS")
    for spoil in (file.unlink, lambda: file.write_text("\n")):
        spoil()
        with pytest.raises(EnvironmentUnfit, match="MULLIGAN_PAYLOAD_KEYS_FILE"):
            load_settings().payload_keys_text()


def test_who_has_no_key_does_not_load_the_library() -> None:
    program = "import sys, mulligan.client, mulligan.events.vault\n"
    program += "print('cryptography' in sys.modules)"
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert ended.stdout.strip() == "False"
