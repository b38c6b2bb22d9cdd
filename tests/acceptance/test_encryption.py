"""
Payload keys: nothing that runs contain can be read where they are kept, and everything by those who
have the key (a server that keeps all, an archive, a witness of writes).
"""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner, Result

from mulligan.actors.assemble import assemble
from mulligan.actors.process import working
from mulligan.cli import main
from mulligan.client import Client
from mulligan.commands.published import published_text
from mulligan.errors import InvalidInput, PayloadKeyMissing, RunExists, RunForgotten
from mulligan.events.data_key import DataKey
from mulligan.events.facts import OutputRepairSucceeded
from mulligan.events.keys import Keys
from mulligan.events.payload import Payload
from mulligan.events.payload_keys import new_key
from mulligan.events.redis_deltas import RedisDeltas
from mulligan.projections.problem import Problem
from mulligan.projections.verify import problems_of
from mulligan.schemas.builder import Workflow
from mulligan.settings import load_settings
from mulligan.testing.scripted_model import ScriptedModel
from mulligan.testing.server import ValkeyServer
from mulligan.testing.waiting import until

pytestmark = pytest.mark.server

PLACES = ("prompt", "input", "tag", "question", "answer", "arguments", "result", "bad", "output")
CANARIES = {place: f"canary-{place}-7f3a" for place in PLACES}
TOOLS = """
from mulligan import tool

@tool(effect="write")
def send(text: str) -> str:
    "Send a text."
    return "canary-result-7f3a " * 1_000

def shout(input, agent):
    return agent["said"].upper()
"""
SCHEMA = {"type": "object", "properties": {"said": {"type": "string"}}, "required": ["said"]}
NEW, OLD = new_key("new"), new_key("old")


def says(place: str) -> str:
    return CANARIES[place]


def turns() -> list[dict[str, Any]]:
    """A question, a write, an output that the overseer has to repair."""
    ask = {"name": "request_user_input", "arguments": {"assistant_message": says("question")}}
    send = {"name": "send", "arguments": {"text": says("arguments")}}
    bad = {"name": "submit_output", "arguments": json.dumps({"output": says("bad")})}
    good = {"repaired_arguments": {"output": {"said": f"{says('output')} {says('bad')}"}}}
    return [
        {"match": {"overseer": True}, "json": good, "times": "always"},
        {"match": {"rounds": 0}, "tool_calls": [ask], "times": "always"},
        {"match": {"rounds": 1}, "tool_calls": [send], "times": "always"},
        {"match": {"rounds": 2}, "tool_calls": [bad], "times": "always"},
    ]


class Office:
    """A server that keeps all it was told, a witness and an archive; and the command line."""

    def __init__(self, folder: Path, server: ValkeyServer, model: ScriptedModel) -> None:
        self.folder, self.server, self.model = folder, server, model
        folder.mkdir(exist_ok=True)
        self.environment = {
            "MULLIGAN_REDIS_URL": server.url,
            "MULLIGAN_DATA_DIR": str(folder),
            "MULLIGAN_INTENTS_DIR": str(folder / "intents"),
        }
        (folder / "office_tools.py").write_text(TOOLS)

    def mulligan(self, *arguments: str, keys: str | None) -> Result:
        env = {**self.environment, "MULLIGAN_PAYLOAD_KEYS": keys or ""}
        return CliRunner().invoke(main, arguments, env=env)

    @contextmanager
    def client(self, keys: str | None) -> Iterator[Client]:
        with pytest.MonkeyPatch.context() as patch:
            for name, value in {**self.environment, "MULLIGAN_PAYLOAD_KEYS": keys or ""}.items():
                patch.setenv(name, value)
            with Client(load_settings()) as client:
                yield client

    @contextmanager
    def works(self, keys: str | None) -> Iterator[Client]:
        """A worker's threads, and a client, with these keys."""
        with self.client(keys) as client:
            runtime = assemble(client.settings)
            try:
                with working(runtime, threads=2, drain_s=1, grace_s=1):
                    yield client
            finally:
                runtime.close()

    def flow(self, *, asks: bool = True) -> Workflow:
        flow = Workflow("office", model="scripted/any", api_base=self.model.url)
        agent = flow.agent(
            "agent",
            prompt=f"{says('prompt')} {{input}}",
            tools=["office_tools:send"] if asks else [],
            allow_user_input=asks,
            output=SCHEMA,
        )
        flow.function("shout", "office_tools:shout", needs=[agent])
        return flow

    def ended(self, client: Client, run: str) -> str:
        """Ask for a run, answer what it asks, and return its output."""
        client.enqueue(self.flow(), {"said": says("input")}, run_id=run, tags=(says("tag"),))
        asked = client.wait(run, timeout_s=30)
        assert asked.status == "paused", asked
        client.answer(run, says("answer"))
        output = client.result(run, timeout_s=30)
        assert isinstance(output, str)
        return output

    def kept(self) -> bytes:
        """Every byte that server, archive and witness keep."""
        with self.server.client() as client:
            client.save()
        files = [*self.server.folder.rglob("*"), *(self.folder / "intents").rglob("*")]
        archived = [*(self.folder / "archive").rglob("*")]
        texts = [one.read_bytes() for one in (*files, *archived) if one.is_file()]
        zipped = [gzip.decompress(one.read_bytes()) for one in archived if one.suffix == ".gz"]
        return b"\0".join((*texts, *zipped))


@pytest.fixture(scope="module")
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel({"turns": turns()}) as model:
        yield model


@pytest.fixture(scope="module")
def keeper() -> Iterator[ValkeyServer]:
    """Uncompressed, so that what stands in its files can be looked for."""
    with ValkeyServer(appendonly="yes", appendfsync="no", rdbcompression="no") as server:
        yield server


@pytest.fixture
def office(
    keeper: ValkeyServer, tmp_path: Path, model: ScriptedModel, monkeypatch: pytest.MonkeyPatch
) -> Office:
    with keeper.client() as client:
        client.flushall()
        client.bgrewriteaof()
        until(lambda: not client.info("persistence")["aof_rewrite_in_progress"], 10)
    monkeypatch.syspath_prepend(tmp_path / "office")
    monkeypatch.delitem(sys.modules, "office_tools", raising=False)
    return Office(tmp_path / "office", keeper, model)


@pytest.fixture(autouse=True)
def accounts() -> None:
    """Runs that no client without the key can read are not accounted for."""


@pytest.mark.parametrize("keys", [None, NEW], ids=["in the clear", "encrypted"])
def test_no_canary_is_kept_where_a_key_is_set(office: Office, keys: str | None) -> None:
    """ovr10: candidates too. Without a key all of them are there, or this could not fail."""
    heard: list[str] = []
    raw: list[bytes] = []
    with office.works(keys) as client, office.server.client() as redis:
        spy = redis.pubsub()
        spy.ssubscribe(Keys(0).deltas("one"))
        listener = client.deltas.subscribe("one")
        output = office.ended(client, "one")
        until(
            lambda: heard.extend(d.text for d in listener.heard(50)) or "out" in "".join(heard), 10
        )
        while (message := spy.get_message(timeout=0.2)) is not None:
            raw += [message["data"]] if message["type"] == "smessage" else []
        spy.close()
        repaired = [e for e in client.events("one") if isinstance(e.data, OutputRepairSucceeded)]
        before = office.kept()
        archived = client.archive(["one"])
        assert (archived.runs, archived.left) == (["one"], {})
        assert client.result("one") == output
    assert len(repaired) == 1, "a candidate was sealed"
    assert output == f"{says('output')} {says('bad')}".upper()
    assert raw, "somebody listened"
    kept = {
        "while it is on the server": before,
        "once it is archived": office.kept(),
        "what is published": b"\0".join(raw),
    }
    guessed = Payload.of({"text": says("arguments")}).digest
    found = {
        place: [where for where, data in kept.items() if canary.encode() in data]
        for place, canary in {**CANARIES, "digest of the arguments": guessed}.items()
    }
    if keys is None:
        assert all(found.values()), found
    else:
        assert not any(found.values()), found


def test_every_reader_reads_what_was_encrypted_and_only_with_the_key(office: Office) -> None:
    with office.works(NEW) as client:
        output = office.ended(client, "one")
    for archived in (False, True):
        if archived:
            assert office.mulligan("archive", "one", keys=NEW).exit_code == 0
        for command in ("status", "trace", "chat", "recovery", "usage", "tail", "verify"):
            told = office.mulligan(command, "one", "--json", keys=NEW)
            assert told.exit_code == 0, told.output
            keyless = office.mulligan(command, "one", "--json", keys=OLD)
            assert keyless.exit_code == (6 if command == "verify" else 5), command
            assert "the payload key new is not here" in keyless.output, command
            assert "canary" not in keyless.output
        assert output in office.mulligan("tail", "one", keys=NEW).output
        assert '"one"' in office.mulligan("list", "--json", keys=NEW).output
        assert office.mulligan("rebuild", keys=NEW).exit_code == 0
        listed = json.loads(office.mulligan("list", "--json", keys=NEW).stdout)["runs"]
        assert [(one["workflow"], one["tags"]) for one in listed] == [("office", [says("tag")])]
    shown = office.mulligan("trace", "one", keys=None)
    assert shown.exit_code == 5
    assert "ToolStarted         [encrypted: key new missing]" in shown.output
    keyless_list = office.mulligan("list", keys=None)
    assert keyless_list.exit_code == 0
    assert "payload key new is not here" in keyless_list.output


def test_a_run_that_began_in_the_clear_goes_on_encrypted(office: Office) -> None:
    with office.works(None) as client:
        client.enqueue(office.flow(), {"said": "clear"}, run_id="one")
        assert client.wait("one", timeout_s=30).status == "paused"
    with office.works(f"{NEW},{OLD}") as client:
        client.answer("one", says("answer"))
        assert client.wait("one", timeout_s=30).status == "completed"
        assert problems_of(client.store, "one", list(client.events("one"))) == list[Problem]()
        fork = client.fork("one", 5, run_id="two")
        assert client.wait(fork, timeout_s=30).status == "paused"
        encrypted = [one.encrypted for one in client.store.outlines("one")]
        assert (encrypted[0], encrypted[-1], sorted(encrypted)) == (False, True, encrypted)
        assert all(one.encrypted for one in client.store.outlines("two"))
        assert client.archive(["one"]).runs == ["one"]
        assert client.result("one") == f"{says('output')} {says('bad')}".upper()
    with office.client(None) as client, pytest.raises(PayloadKeyMissing) as missing:
        client.status("one")
    assert (missing.value.key, missing.value.version) == ("new", encrypted.index(True) + 1)


def test_the_same_request_is_the_same_run_whoever_asks(office: Office) -> None:
    with office.client(NEW) as client, office.client(NEW) as other:
        client.enqueue(office.flow(), {"said": "yes"}, run_id="one")
        assert other.enqueue(office.flow(), {"said": "yes"}, run_id="one") == "one"
        with pytest.raises(RunExists):
            other.enqueue(office.flow(), {"said": "no"}, run_id="one")
        assert len(list(other.events("one"))) == 1


def test_nothing_is_asked_for_in_the_clear_where_runs_are_encrypted(office: Office) -> None:
    with office.client(NEW) as client:
        client.enqueue(office.flow(), {"said": "yes"}, run_id="one")
    with office.client(None) as keyless, pytest.raises(PayloadKeyMissing, match="key new is not"):
        keyless.enqueue(office.flow(), {"said": "yes"}, run_id="two")
    same_name = new_key("new")
    with (
        office.client(same_name) as other,
        pytest.raises(PayloadKeyMissing, match="key new is another one here"),
    ):
        other.enqueue(office.flow(), {"said": "yes"}, run_id="two")
    assert office.mulligan("status", "two", keys=NEW).exit_code == 2


def test_a_worker_without_the_key_leaves_runs_to_those_that_have_it(office: Office) -> None:
    with office.works(OLD) as keyless:
        with office.client(NEW) as client:
            client.enqueue(office.flow(), {"said": "yes"}, run_id="one")
        # Found out by reading it, and given back.
        until(lambda: bool(keyless.store.row("one")), 5)
        assert office.ended(keyless, "mine").startswith("CANARY")
        assert len(keyless.store.outlines("one")) == 1, "neither worked nor parked"
        with office.works(NEW) as client:
            assert client.wait("one", timeout_s=30).reason == "awaiting_input"
        told = office.mulligan("doctor", keys=OLD)
        assert "runs need the payload key new" in told.output
        assert told.exit_code == 5
    secrets = [key.partition(":")[2] for key in (NEW, OLD)]
    good = office.mulligan("doctor", keys=f"{NEW},{OLD}")
    assert "what runs contain is encrypted by new (" in good.output
    assert not any(secret in told.output + good.output for secret in secrets)


def test_rotation_moves_every_run_and_changes_no_event(office: Office) -> None:
    with office.works(OLD) as client:
        output = office.ended(client, "ended")
        client.enqueue(office.flow(), {"said": "yes"}, run_id="live")
        client.wait("live", timeout_s=30)
        office.ended(client, "archived")
        client.archive(["archived"])
        before = client.store.stored("ended")
    both = f"{NEW},{OLD}"
    lacking = office.mulligan("keys", "rotate", "--json", keys=NEW)
    assert lacking.exit_code == 5
    assert set(json.loads(lacking.stdout)["left"]) == {"ended", "live", "archived"}

    done = office.mulligan("keys", "rotate", "--json", keys=both)

    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    jsonschema.validate(told, json.loads(published_text("keys-rotate")))
    assert (told["moved"], told["free"], told["left"]) == (3, ["old"], {})
    again = office.mulligan("keys", "rotate", keys=both)
    assert again.exit_code == 0
    assert again.output.startswith("0 runs moved to new (")
    assert OLD.partition(":")[2] not in again.output
    with office.works(NEW) as client:
        assert client.store.stored("ended") == before
        assert client.result("ended") == client.result("archived") == output
        client.answer("live", says("answer"))
        assert client.result("live", timeout_s=30) == output
    listed = office.mulligan("keys", "list", keys=NEW)
    assert "encrypts" in listed.output
    assert "MISSING" not in listed.output


def test_a_forgotten_run_is_read_by_nobody_and_nowhere(office: Office) -> None:
    with office.works(NEW) as client:
        output = office.ended(client, "kept")
        office.ended(client, "gone")
        client.enqueue(office.flow(), {"said": "yes"}, run_id="live")
        client.archive(["gone"])
    assert office.mulligan("keys", "forget", "gone", keys=NEW).exit_code == 2, "without --yes"
    assert office.mulligan("keys", "forget", "live", "--yes", keys=NEW).exit_code == 2, "goes on"
    assert office.mulligan("status", "gone", keys=NEW).exit_code == 0

    assert office.mulligan("keys", "forget", "gone", "--yes", keys=NEW).exit_code == 0

    assert office.mulligan("keys", "forget", "gone", "--yes", keys=NEW).exit_code == 0
    told = office.mulligan("status", "gone", keys=NEW)
    assert (told.exit_code, "was forgotten" in told.output) == (5, True)
    assert office.mulligan("verify", keys=NEW).exit_code == 0
    assert office.mulligan("keys", "rotate", keys=f"{OLD},{NEW}").exit_code == 0
    with office.client(NEW + "," + OLD) as client:
        assert client.result("kept") == output
        with pytest.raises(RunForgotten):
            client.status("gone")
        with pytest.raises(InvalidInput):
            client.enqueue(office.flow(), {"said": "yes"}, run_id="kept")


def test_what_was_tampered_with_is_told_and_not_read(office: Office) -> None:
    keys = Keys(0)
    with office.client(NEW) as client:
        for run in ("one", "two"):
            client.enqueue(office.flow(), {"said": run}, run_id=run)
        with office.server.client() as redis:
            [(_, one)], [(_, two)] = (redis.xrange(keys.run(run)) for run in ("one", "two"))
            for place, data in (
                (
                    "another run's fact",
                    {**json.loads(one[b"d"]), "data": json.loads(two[b"d"])["data"]},
                ),
                ("another node", {**json.loads(one[b"d"]), "node": "other"}),
                ("no base64", {**json.loads(one[b"d"]), "data": "?"}),
            ):
                redis.delete(keys.run("one"))
                raw = json.dumps(data)
                redis.xadd(keys.run("one"), {"t": one[b"t"], "d": raw}, id="1-0")
                told = office.mulligan("status", "one", keys=NEW)
                assert told.exit_code == 5, place
                assert "tampered with" in told.output, place
            redis.hset(keys.data_keys, "two", redis.hget(keys.data_keys, "one"))
        told = office.mulligan("status", "two", keys=NEW)
        assert (told.exit_code, "its data key" in told.output) == (5, True)


def test_live_output_of_a_run_is_silence_without_its_key(office: Office) -> None:
    with office.client(NEW) as client, office.client(None) as keyless:
        client.enqueue(office.flow(), {"said": "yes"}, run_id="one")
        deltas = keyless.deltas
        assert isinstance(deltas, RedisDeltas)
        key = client.store.vault.key_of("one")
        assert isinstance(key, DataKey)
        assert deltas._opened("one", client.store.vault.sealed("one", b"{}", "delta")) == b""
