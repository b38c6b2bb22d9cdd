"""
Settings from the environment and a `.env` in the working directory; nothing else reads either.

The environment wins over `.env`, and an empty value counts as unset.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin
from urllib.parse import SplitResult, parse_qs, urlencode, urlsplit

import msgspec
from msgspec import Meta
from msgspec.structs import FieldInfo, fields

from mulligan.errors import EnvironmentUnfit, InvalidInput

PREFIX = "MULLIGAN_"
ENV_FILE = ".env"

SERVER_SCHEMES = ("redis", "rediss", "unix")
STORE_SCHEMES = (*SERVER_SCHEMES, "redis+cluster", "rediss+cluster")
BROKER_SCHEMES = (*SERVER_SCHEMES, "amqp", "amqps", "stub")

LogLevel = Literal["debug", "info", "warning", "error"]
SpanExporterName = Literal["otlp", "console"]
"""Where spans may go: to a collector, or to stdout."""


MOST_REQUESTS = 1_000_000
Requests = Annotated[int, Meta(ge=1, le=MOST_REQUESTS)]
Count = Annotated[int, Meta(ge=1)]


class RequestLimit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """
    How many requests a provider takes of one model, or of all its models together: at once, and in
    any minute (REC-34). At least one of the two.
    """

    concurrent: Requests | None = None
    per_minute: Requests | None = None

    def __post_init__(self) -> None:
        if self.concurrent is None and self.per_minute is None:
            raise ValueError("no limit is set")


class Secret:
    """A text that is not shown: its `repr` and `str` are stars."""

    def __init__(self, text: str) -> None:
        self._text = text

    def get_secret_value(self) -> str:
        """The text."""
        return self._text

    def __repr__(self) -> str:
        return "Secret('***')"

    __str__ = __repr__


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """
    What a process is told from outside: `load_settings` reads it. Each field is the variable of the
    same name in capitals behind `MULLIGAN_`; its description completes the sentence "must be …" of
    an error. A list or an object is written as JSON.

    The lease's defaults are those of the log's rules: a worker that died is replaced within
    `lease_ms` plus a second; `lease_margin_ms` before the end nothing new is started;
    `lease_grace_ms` is how long a draining process, having told what runs to stop, waits for the
    outcome to be recorded before it gives its leases back.

    A response counts as fallen into a loop when its last `repetition_min_bytes` repeat a piece of
    at most `repetition_max_period` characters, `repetition_min_repeats` times at least (REC-16).

    `archive_dir` is where archived runs are kept; all that read runs are given the same.

    `http_tokens` are those with which the HTTP API lets in, each as good as the others, and
    `http_hosts` the names under which it is asked for, besides `localhost` and addresses.

    `intents_dir` is where starts of writes are noted outside the log, so that none is repeated
    after a failover that has lost its start; all workers of a log are given the same, and those of
    no other. With `write_intents` at `synced` workers refuse a server that can't promise that a
    start is on disk before its write begins.

    `payload_keys` encrypt what runs contain: the first of the list, and all of it decrypts. They
    stand in the variable, or in the file that `payload_keys_file` names; whatever reads or works
    runs is given the same (docs/encryption.md).

    `model_limits` are by `PROVIDER/ID`, or by `PROVIDER` for all its models without limits of their
    own together; all workers of a deployment are given the same.
    """

    redis_url: Annotated[
        str | None,
        Meta(description="a URL such as redis://HOST:6379/0, rediss://… or unix://PATH"),
    ] = None
    broker_url: Annotated[
        str | None,
        Meta(description="a URL that starts with redis, rediss, unix, amqp or amqps"),
    ] = None
    partitions: Annotated[
        Annotated[int, Meta(ge=1, le=1_024)] | None,
        Meta(
            description="a whole number from 1 to 1024, which a server keeps from its first use on"
        ),
    ] = None
    model: Annotated[
        str | None, Meta(description="the name of a model, such as openai/some-model")
    ] = None
    api_base: Annotated[
        str | None,
        Meta(description="the URL of an OpenAI-compatible server, http:// or https://"),
    ] = None
    model_limits: Annotated[
        dict[str, RequestLimit],
        Meta(
            description="a JSON object of limits, each a whole number from 1 to 1000000, by model "
            'or provider, such as {"openai/some-model": {"concurrent": 10, "per_minute": 500}}'
        ),
    ] = msgspec.field(default_factory=dict)
    data_dir: Annotated[Path, Meta(description="the path of a folder")] = Path(".mulligan")
    archive_dir: Annotated[Path | None, Meta(description="the path of a folder")] = None
    intents_dir: Annotated[Path | None, Meta(description="the path of a folder")] = None
    write_intents: Annotated[
        Literal["logged", "synced"], Meta(description="logged or synced, in small letters")
    ] = "logged"
    payload_keys: Annotated[
        str | None,
        Meta(
            description="a list of NAME:KEY between commas, as `mulligan keys new NAME` prints them"
        ),
    ] = None
    payload_keys_file: Annotated[
        Path | None, Meta(description="the path of a file with a NAME:KEY on each line")
    ] = None
    log_level: Annotated[
        LogLevel, Meta(description=f"one of {', '.join(get_args(LogLevel))}, in small letters")
    ] = "info"
    repetition_max_period: Annotated[
        Count, Meta(description="a whole number of characters, at least 1")
    ] = 512
    repetition_min_repeats: Annotated[int, Meta(ge=2, description="a whole number, at least 2")] = 4
    repetition_min_bytes: Annotated[
        Count, Meta(description="a whole number of bytes, at least 1")
    ] = 12 * 1024
    crash_at: Annotated[
        str | None, Meta(description="crash points (for tests), [ACTOR/]POINT[:N]:ACTION")
    ] = None
    crash_ask: Annotated[
        Path | None,
        Meta(description="the path of a unix socket (for tests), for the crash action `ask`"),
    ] = None
    lease_ms: Annotated[
        int, Meta(ge=300, description="a whole number of milliseconds, at least 300")
    ] = 10_000
    lease_margin_ms: Annotated[
        Count, Meta(description="a whole number of milliseconds, at least 1")
    ] = 1_000
    lease_grace_ms: Annotated[
        Count, Meta(description="a whole number of milliseconds, at least 1")
    ] = 2_000

    browser_socket: Annotated[
        Path | None, Meta(description="the path of a socket, of at most 100 bytes")
    ] = None
    browser_executable: Annotated[
        Path | None, Meta(description="the path of a Chromium or Chrome")
    ] = None
    browser_allow: Annotated[
        tuple[str, ...],
        Meta(description='a JSON list of hosts, such as ["example.org", "*.example.org"]'),
    ] = ()
    browser_networks: Annotated[
        tuple[str, ...], Meta(description='a JSON list of networks, such as ["10.0.0.0/8"]')
    ] = ()
    browser_secrets: Annotated[
        dict[str, tuple[str, ...]],
        Meta(
            description="a JSON object of variables' names and the hosts where each may be typed, "
            'such as {"SITE_PASSWORD": ["example.org"]}'
        ),
    ] = msgspec.field(default_factory=dict)
    browser_files: Annotated[
        Path | None,
        Meta(description="the path of the folder from which files may be uploaded"),
    ] = None

    http_tokens: Annotated[
        str | None,
        Meta(
            description="a token of at least 32 letters, digits and -._~+/=, or several between "
            "commas"
        ),
    ] = None
    http_hosts: Annotated[
        tuple[str, ...],
        Meta(description='a JSON list of host names, such as ["mulligan.example.org"]'),
    ] = ()

    dotenv: Mapping[str, str | None] = msgspec.field(default_factory=dict)
    """The whole of `.env`: keys of providers are there under names that are not ours."""

    def __repr__(self) -> str:
        shown = (field.name for field in fields(self) if field.name not in _HIDDEN)
        return f"Settings({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"

    @property
    def archive(self) -> Path:
        """Where archived runs are: `archive_dir`, or the folder `archive` of the data directory."""
        return self.archive_dir if self.archive_dir is not None else self.data_dir / "archive"

    @property
    def browser_socket_path(self) -> Path:
        """Where the browser bridge listens: as set, or in the data folder, if that is not long."""
        if self.browser_socket is not None:
            return self.browser_socket
        return short_socket_path(self.data_dir / "browser.sock")

    def payload_keys_text(self) -> str | None:
        """
        The list of payload keys, from the variable or from the file; None: there is none.

        Raises:
            InvalidInput: both are set.
            EnvironmentUnfit: the file can't be read, or holds no such list.
        """
        if self.payload_keys_file is None:
            return self.payload_keys
        if self.payload_keys is not None:
            raise InvalidInput(
                "MULLIGAN_PAYLOAD_KEYS and MULLIGAN_PAYLOAD_KEYS_FILE are both set: unset one"
            )
        try:
            text = self.payload_keys_file.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise EnvironmentUnfit(
                f"MULLIGAN_PAYLOAD_KEYS_FILE: {self.payload_keys_file} can't be read "
                f"({type(error).__name__}); make it a text file that this user may read"
            ) from None
        if not text.strip():
            raise EnvironmentUnfit(
                f"MULLIGAN_PAYLOAD_KEYS_FILE: {self.payload_keys_file} is empty; "
                "`mulligan keys new NAME` makes a line for it"
            )
        return text

    def provider_key(self, name: str) -> Secret | None:
        """
        A provider's key under its usual name, or None: for `openai` that of `OPENAI_API_KEY`. A
        name in capitals is taken as the variable itself. Its `repr` and `str` are stars.
        """
        variable = name if name.isupper() else f"{name.upper().replace('-', '_')}_API_KEY"
        value = os.environ.get(variable) or self.dotenv.get(variable)
        return Secret(value) if value else None

    def span_exporters(self) -> tuple[SpanExporterName, ...]:
        """
        Where spans go, by the variables of OpenTelemetry; nowhere, if none of them names a place.
        Those that stand in `.env` are set for this process, since its library reads no such file.

        Raises:
            InvalidInput: they name an exporter or a protocol that is not here.
        """
        for name, value in self.dotenv.items():
            if name.startswith(OTEL_PREFIX) and value:
                os.environ.setdefault(name, value)
        return _span_exporters(os.environ)

    def unknown_names(self) -> list[str]:
        """Variables that begin with `MULLIGAN_` and mean nothing: typing errors, most likely."""
        known = {_variable(field) for field in _variables()}
        names = {*os.environ, *self.dotenv}
        return sorted(name for name in names if name.startswith(PREFIX) and name not in known)

    def child_environment(self, *, armed: bool) -> dict[str, str]:
        """The environment for a process of ours; without its crash points unless `armed`."""
        environment = dict(os.environ)
        if not armed:
            environment[f"{PREFIX}CRASH_AT"] = ""
        return environment


def load_settings(**given: Any) -> Settings:
    """
    Read the environment and `.env`; the fields that are `given` win over both.

    Raises:
        InvalidInput: a value that can't be used; the message names every such variable, what it
            must be, and what to do. It never quotes a value: a URL may hold a password.
        EnvironmentUnfit: `.env` is there and can't be read.
    """
    dotenv = _dotenv()
    values: dict[str, Any] = {}
    problems = []
    for field in _variables():
        name = _variable(field)
        text = os.environ.get(name) or dotenv.get(name)
        if not text or field.name in given:
            continue
        try:
            values[field.name] = _value(field, text)
        except (ValueError, RecursionError):
            problems.append(_explained(field))
    if problems:
        raise InvalidInput("\n".join(problems))
    settings = Settings(**values, **given, dotenv=dotenv)
    if settings.lease_margin_ms >= settings.lease_ms:
        raise InvalidInput(
            "MULLIGAN_LEASE_MARGIN_MS must be below MULLIGAN_LEASE_MS: a lease whose margin is as "
            "long as itself starts no work"
        )
    return settings


def _dotenv() -> dict[str, str | None]:
    if not os.path.lexists(ENV_FILE):
        return {}
    from dotenv import dotenv_values  # who has no such file does not pay for it

    try:
        return dotenv_values(ENV_FILE, encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise EnvironmentUnfit(
            f"{ENV_FILE} can't be read ({type(error).__name__}); make it a UTF-8 text file that "
            "this user may read, or remove it"
        ) from None


# --- Variables -----------------------------------------------------------------------------------


def _variables() -> list[FieldInfo]:
    return [field for field in fields(Settings) if field.name != "dotenv"]


def _variable(field: FieldInfo) -> str:
    return PREFIX + field.name.upper()


def _value(field: FieldInfo, text: str) -> Any:
    """
    What a variable's text says.

    Raises:
        ValueError, RecursionError: it can't be used.
    """
    kind = get_args(field.type)[0]
    if get_origin(kind) in (dict, tuple):
        value = msgspec.json.decode(text, type=field.type)
    else:
        value = msgspec.convert(text, field.type, strict=False, dec_hook=_made)
    _CHECKS.get(field.name, _nothing_else)(value)
    return value


def _made(kind: type, text: str) -> Any:
    return kind(text)


def _explained(field: FieldInfo) -> str:
    """One line for a variable that can't be used."""
    wanted = get_args(field.type)[-1]
    return (
        f"{_variable(field)} must be {wanted.description}; "
        f"correct it in the environment or {ENV_FILE}, or unset it for the default"
    )


def _url_of(*schemes: str) -> Callable[[str], None]:
    """Check a URL's scheme, and that it says where."""

    def check(url: str) -> None:
        parts = urlsplit(url)
        where = parts.path if parts.scheme == "unix" else parts.netloc
        if parts.scheme not in schemes or not (where or parts.scheme == "stub"):
            raise ValueError("not such a URL")

    return check


def _networks(texts: tuple[str, ...]) -> None:
    from ipaddress import ip_network  # only where networks are set

    for text in texts:
        ip_network(text)


_TOKEN = re.compile(r"[A-Za-z0-9\-._~+/=]{32,512}")
"""What a bearer token may be (RFC 6750), long enough to be no word."""


def _tokens(text: str) -> None:
    if not all(_TOKEN.fullmatch(token) for token in text.split(",")):
        raise ValueError("not such tokens")


_PAYLOAD_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}:[A-Za-z0-9_-]{43}")


def _payload_keys(text: str) -> None:
    if not all(_PAYLOAD_KEY.fullmatch(one) for one in re.split(r"[,\s]+", text.strip(", \t\r\n"))):
        raise ValueError("not such keys")


def _nothing_else(_: Any) -> None:
    """The type says all."""


_CHECKS: Mapping[str, Callable[[Any], None]] = {
    "redis_url": _url_of(*STORE_SCHEMES),
    "broker_url": _url_of(*BROKER_SCHEMES),
    "api_base": _url_of("http", "https"),
    "browser_networks": _networks,
    "http_tokens": _tokens,
    "payload_keys": _payload_keys,
}
"""What a value must be beyond its type; each raises ValueError where it is not."""

_HIDDEN = {"redis_url", "broker_url", "api_base", "http_tokens", "payload_keys", "dotenv"}
"""URLs may hold passwords, and `.env` keys."""


# --- OpenTelemetry -------------------------------------------------------------------------------

OTEL_PREFIX = "OTEL_"
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")


def _span_exporters(environment: Mapping[str, str]) -> tuple[SpanExporterName, ...]:
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return ()
    text = environment.get("OTEL_TRACES_EXPORTER", "").strip()
    endpoint = any(environment.get(name) for name in _ENDPOINTS)
    names = text.split(",") if text else ["otlp"] if endpoint else []
    names = [name.strip() for name in names if name.strip() != "none"]
    if any(name not in get_args(SpanExporterName) for name in names):
        raise InvalidInput(
            "OTEL_TRACES_EXPORTER must be otlp, console, both between a comma, or none; "
            "correct it, or unset it"
        )
    protocols = (environment.get(name) for name in _PROTOCOLS)
    protocol = next(filter(None, protocols), "http/protobuf")
    if "otlp" in names and protocol != "http/protobuf":
        raise InvalidInput(
            "OTEL_EXPORTER_OTLP_PROTOCOL must be http/protobuf, the one protocol that is here "
            "(collectors take it on port 4318); correct it, or unset it"
        )
    return tuple(name for name in get_args(SpanExporterName) if name in names)


# --- Paths and URLs ------------------------------------------------------------------------------


MAX_SOCKET_PATH = 100
"""Bytes of a unix socket's path; systems take 103 at least."""


def short_socket_path(path: Path) -> Path:
    """`path`, or one in the folder of temporary files that stands for it, if it is too long."""
    full = path.absolute()
    if len(os.fsencode(full)) <= MAX_SOCKET_PATH:
        return full
    name = hashlib.sha256(os.fsencode(full)).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"mulligan-{os.getuid()}-{name}.sock"


def next_database(url: str) -> str:
    """The same Redis server's next database: `…/0` → `…/1`, `unix://…?db=0` → `…?db=1`."""
    parts = urlsplit(url)
    query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    number = query.get("db") or ("" if parts.scheme == "unix" else parts.path.strip("/")) or "0"
    following = str(int(number) + 1) if number.isdecimal() else "1"
    if "db" in query or parts.scheme == "unix":
        return _joined(parts._replace(query=urlencode(query | {"db": following})))
    return _joined(parts._replace(path=f"/{following}"))


def without_password(url: str) -> str:
    """A URL fit to be shown: the password and anything like one are stars."""
    parts = urlsplit(url)
    user, at, host = parts.netloc.rpartition("@")
    if ":" in user:
        user = f"{user.partition(':')[0]}:***"
    secret = {"password", "username"}
    query = [
        (name, "***" if name in secret else value)
        for name, values in parse_qs(parts.query).items()
        for value in values
    ]
    return _joined(parts._replace(netloc=f"{user}{at}{host}", query=urlencode(query, safe="*/")))


def _joined(parts: SplitResult) -> str:
    """The URL of its parts; the library's own writes `unix:/path`, which no client takes."""
    query = f"?{parts.query}" if parts.query else ""
    return f"{parts.scheme}://{parts.netloc}{parts.path}{query}"
