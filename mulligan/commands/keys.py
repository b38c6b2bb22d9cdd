"""`mulligan keys`: the keys to what runs contain; docs/encryption.md tells of them."""

from __future__ import annotations

import sys
from datetime import UTC, datetime

import click

from mulligan.client import Client
from mulligan.commands.printing import json_option, show_json, table
from mulligan.errors import EnvironmentUnfit, InvalidInput
from mulligan.events import key_rotation
from mulligan.events.key_rotation import Rotated, wrapped_by
from mulligan.events.payload_keys import PayloadKeys, new_key, payload_keys
from mulligan.settings import load_settings

NONE_SET = (
    "no payload key is set here: `mulligan keys new NAME` makes one for MULLIGAN_PAYLOAD_KEYS, or "
    "for the file that MULLIGAN_PAYLOAD_KEYS_FILE names"
)


@click.group()
def keys() -> None:
    """Keys to what runs contain. Only `new` prints one; the others tell names and fingerprints."""


@keys.command()
@click.argument("name", required=False)
def new(name: str | None) -> None:
    """Print a fresh key as an entry of MULLIGAN_PAYLOAD_KEYS. NAME: today's date, if not given."""
    click.echo(new_key(name if name is not None else f"{datetime.now(UTC):%Y-%m-%d}"))


@keys.command("list")
def list_keys() -> None:
    """List the keys that are here or that runs need, and how many runs each opens."""
    here = payload_keys(load_settings().payload_keys_text())
    with Client() as client:
        runs, forgotten = wrapped_by(client.store)
    known = [key.told for key in here] if here is not None else []
    cells = [(told, _place(told, here), str(runs.get(told, 0))) for told in known]
    cells += [(told, "MISSING", str(count)) for told, count in runs.items() if told not in known]
    if not cells:
        click.echo(NONE_SET, err=True)
        return
    table(("key", "here", "runs"), cells)
    if forgotten:
        click.echo(f"{forgotten} runs were forgotten", err=True)


@keys.command()
@json_option
def rotate(as_json: bool) -> None:
    """
    Have the first key of the list open all runs, archived ones too. Events stay as they are. Broken
    off, it is begun again; repeated, it changes nothing.
    """
    here = _required()
    with Client() as client:
        done = key_rotation.rotate(client.store, here)
    if as_json:
        show_json(done)
    else:
        _show(done, here)
    if done.left:
        sys.exit(EnvironmentUnfit.exit_code)


@keys.command()
@click.argument("run")
@click.option("--yes", is_flag=True, help="Do it: nobody can undo it.")
def forget(run: str, yes: bool) -> None:
    """
    Destroy the key to what an ended run contained: its inputs, outputs and all that was said are
    lost, in archived files too. Its id, its times and the kinds of its events stay.
    """
    if not yes:
        raise InvalidInput(
            f"what run {run!r} contained would be lost for ever, wherever it is archived; "
            "repeat the command with --yes"
        )
    with Client() as client:
        clear = key_rotation.forget(client.store, run)
    click.echo(f"{run} is forgotten", err=True)
    if clear:
        click.echo(
            f"{clear} of its events were written before a key was set, and stay readable", err=True
        )


def _required() -> PayloadKeys:
    here = payload_keys(load_settings().payload_keys_text())
    if here is None:
        raise EnvironmentUnfit(NONE_SET)
    return here


def _place(told: str, here: PayloadKeys | None) -> str:
    return "encrypts" if here is not None and told == here.first.told else "decrypts"


def _show(done: Rotated, here: PayloadKeys) -> None:
    click.echo(f"{done.moved} runs moved to {here.first.told}", err=True)
    for told, count in done.runs.items():
        click.echo(f"{told} opens {count} runs", err=True)
    for name in done.free:
        click.echo(
            f"{name} opens no run any more: take it off the list once every process has been "
            f"started again with {here.first.name} before it, and no backup needs it",
            err=True,
        )
    for run, reason in done.left.items():
        click.echo(f"not moved: {run}: {reason}", err=True)
