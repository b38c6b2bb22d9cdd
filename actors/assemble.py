"""
A process's runtime, put together from its settings.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog

from mulligan.actors.broker import broker_url_beside, make_broker
from mulligan.actors.leases import LeaseKeeper
from mulligan.actors.runtime import Runtime
from mulligan.actors.tracing import tracing_of
from mulligan.actors.write_intents import WriteIntents
from mulligan.app import load_app
from mulligan.embedded import ensure_server
from mulligan.events.encrypted_intents import EncryptedIntents
from mulligan.events.folder_intents import FolderIntents
from mulligan.events.payload_keys import payload_keys
from mulligan.events.redis_deltas import RedisDeltas
from mulligan.events.redis_slots import RedisSlots
from mulligan.events.redis_store import RedisEventStore
from mulligan.events.redis_sync import LogSync
from mulligan.events.store import EventStore
from mulligan.events.vault import Vault
from mulligan.providers.lanes import Lanes
from mulligan.providers.repetition import Repetition
from mulligan.providers.router import ModelRouter
from mulligan.settings import Settings

_log = structlog.get_logger(__name__)


def repetition_of(settings: Settings) -> Repetition:
    """What counts as a loop in a response (REC-16)."""
    return Repetition(
        max_period=settings.repetition_max_period,
        min_repeats=settings.repetition_min_repeats,
        min_bytes=settings.repetition_min_bytes,
    )


def assemble(
    settings: Settings,
    app: str | None = None,
    *,
    around: Callable[[EventStore], EventStore] = lambda store: store,
) -> Runtime:
    """
    The runtime of a worker process: what `mulligan.actors.process` makes its threads work with.
    `app` (`module:attribute`) is imported, and with it the code that it registers. `around` may put
    something between the process and its log.

    Raises:
        InvalidInput: there is no such app, or it is none; or limits name no provider; or
            OpenTelemetry's variables ask for what is not here.
        EnvironmentUnfit: no server, or one that is not set up for a log; or intents of writes can't
            be kept as the settings say.
    """
    if app is not None:
        load_app(app)
    lanes = Lanes(settings.model_limits)
    settings.span_exporters()  # what can't be used is refused before anything is started
    url = settings.redis_url or ensure_server(settings.data_dir)
    keys = payload_keys(settings.payload_keys_text())
    server = RedisEventStore(url, partitions=settings.partitions, payload_keys=keys)
    server.check()
    for name in server.vault.lacking:
        _log.error("payload_key_missing", payload_key=name, left="runs that need it")
    store = around(server)

    def key(name: str) -> str | None:
        secret = settings.provider_key(name)
        return secret.get_secret_value() if secret is not None else None

    tracing = tracing_of(settings, store.read)
    return Runtime(
        store,
        make_broker(settings.broker_url or broker_url_beside(url)),
        ModelRouter(key, api_base=settings.api_base, repetition=repetition_of(settings)),
        LeaseKeeper(store, lease_ms=settings.lease_ms, margin_ms=settings.lease_margin_ms),
        lease_ms=settings.lease_ms,
        app=app,
        lanes=lanes,
        slots=RedisSlots(url),
        deltas=RedisDeltas(url, store.partitions, store.vault),
        intents=_intents(settings, url, store.vault),
        tracing=tracing,
    )


def _intents(settings: Settings, url: str, vault: Vault) -> WriteIntents:
    witness = None
    if settings.intents_dir is not None:
        witness = EncryptedIntents(FolderIntents(settings.intents_dir), vault)
        witness.check()
    return WriteIntents(witness, LogSync(url) if settings.write_intents == "synced" else None)
