"""
Settings from the environment and a `.env` in the working directory; nothing else reads either.

The environment wins over `.env`, and an empty value counts as unset.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args
from urllib.parse import SplitResult, parse_qs, urlencode, urlsplit

from dotenv import dotenv_values
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PositiveInt,
    PrivateAttr,
    SecretStr,
    ValidationError,
    model_validator,
)
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from mulligan.errors import EnvironmentUnfit, InvalidInput

PREFIX = "MULLIGAN_"
ENV_FILE = ".env"

SERVER_SCHEMES = ("redis", "rediss", "unix")
STORE_SCHEMES = (*SERVER_SCHEMES, "redis+cluster", "rediss+cluster")
BROKER_SCHEMES = (*SERVER_SCHEMES, "amqp", "amqps", "stub")

LogLevel = Literal["debug", "info", "warning", "error"]


def _url_of(*schemes: str) -> AfterValidator:
    """Check a URL's scheme, and that it says where."""

    def check(url: str) -> str:
        parts = urlsplit(url)
        where = parts.path if parts.scheme == "unix" else parts.netloc
        if parts.scheme not in schemes or not (where or parts.scheme == "stub"):
            raise ValueError("not such a URL")
        return url

    return AfterValidator(check)


MOST_REQUESTS = 1_000_000
Requests = Annotated[int, Field(strict=True, ge=1, le=MOST_REQUESTS)]


class RequestLimit(BaseModel):
    """
    How many requests a provider takes of one model, or of all its models together: at once, and in
    any minute (REC-34). At least one of the two.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    concurrent: Requests | None = None
    per_minute: Requests | None = None

    @model_validator(mode="after")
    def _limits_something(self) -> Self:
        if self.concurrent is None and self.per_minute is None:
            raise ValueError("no limit is set")
        return self


def _from_json(value: Any) -> Any:
    """A variable's text as what it says; anything else as it is."""
    try:
        return json.loads(value) if isinstance(value, str) else value
    except RecursionError:
        raise ValueError("nested too deep") from None


def _network(text: str) -> str:
    """Check a network. Raises ValueError where it is none."""
    ip_network(text)
    return text


class Settings(BaseSettings):
    """
    What a process is told from outside. Each field is the variable of the same name in capitals
    behind `MULLIGAN_`; its description completes the sentence "must be …" of an error.

    The lease's defaults are those of the log's rules: a worker that died is replaced within
    `lease_ms` plus a second; `lease_margin_ms` before the end nothing new is started;
    `lease_grace_ms` is how long a draining process, having told what runs to stop, waits for the
    outcome to be recorded before it gives its leases back.

    A response counts as fallen into a loop when its last `repetition_min_bytes` repeat a piece of
    at most `repetition_max_period` characters, `repetition_min_repeats` times at least (REC-16).

    `archive_dir` is where archived runs are kept; all that read runs are given the same.

    `model_limits` are by `PROVIDER/ID`, or by `PROVIDER` for all its models without limits of their
    own together; all workers of a deployment are given the same.
    """

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_file=ENV_FILE,
        env_file_encoding="utf-8",
        env_ignore_empty=True,
        extra="ignore",
        frozen=True,
        hide_input_in_errors=True,
    )

    redis_url: Annotated[str, _url_of(*STORE_SCHEMES)] | None = Field(
        None, repr=False, description="a URL such as redis://HOST:6379/0, rediss://… or unix://PATH"
    )
    broker_url: Annotated[str, _url_of(*BROKER_SCHEMES)] | None = Field(
        None, repr=False, description="a URL that starts with redis, rediss, unix, amqp or amqps"
    )
    partitions: Annotated[PositiveInt, Field(le=1_024)] | None = Field(
        None,
        description="a whole number from 1 to 1024, which a server keeps from its first use on",
    )
    model: str | None = Field(None, description="the name of a model, such as openai/some-model")
    api_base: Annotated[str, _url_of("http", "https")] | None = Field(
        None, repr=False, description="the URL of an OpenAI-compatible server, http:// or https://"
    )
    model_limits: Annotated[dict[str, RequestLimit], NoDecode, BeforeValidator(_from_json)] = Field(
        {},
        description="a JSON object of limits, each a whole number from 1 to 1000000, by model or "
        "provider, such as "
        '{"openai/some-model": {"concurrent": 10, "per_minute": 500}}',
    )
    data_dir: Path = Field(Path(".mulligan"), description="the path of a folder")
    archive_dir: Path | None = Field(None, description="the path of a folder")
    log_level: LogLevel = Field(
        "info", description=f"one of {', '.join(get_args(LogLevel))}, in small letters"
    )
    repetition_max_period: PositiveInt = Field(
        512, description="a whole number of characters, at least 1"
    )
    repetition_min_repeats: Annotated[PositiveInt, Field(ge=2)] = Field(
        4, description="a whole number, at least 2"
    )
    repetition_min_bytes: PositiveInt = Field(
        12 * 1024, description="a whole number of bytes, at least 1"
    )
    crash_at: str | None = Field(None, description="crash points (for tests), POINT[:N]:ACTION")
    lease_ms: Annotated[PositiveInt, Field(ge=300)] = Field(
        10_000, description="a whole number of milliseconds, at least 300"
    )
    lease_margin_ms: PositiveInt = Field(
        1_000, description="a whole number of milliseconds, at least 1"
    )
    lease_grace_ms: PositiveInt = Field(
        2_000, description="a whole number of milliseconds, at least 1"
    )

    browser_socket: Path | None = Field(
        None, description="the path of a socket, of at most 100 bytes"
    )
    browser_executable: Path | None = Field(None, description="the path of a Chromium or Chrome")
    browser_allow: Annotated[tuple[str, ...], NoDecode, BeforeValidator(_from_json)] = Field(
        (), description='a JSON list of hosts, such as ["example.org", "*.example.org"]'
    )
    browser_networks: Annotated[
        tuple[Annotated[str, AfterValidator(_network)], ...], NoDecode, BeforeValidator(_from_json)
    ] = Field((), description='a JSON list of networks, such as ["10.0.0.0/8"]')
    browser_secrets: Annotated[
        dict[str, tuple[str, ...]], NoDecode, BeforeValidator(_from_json)
    ] = Field(
        {},
        description="a JSON object of variables' names and the hosts where each may be typed, such "
        'as {"SITE_PASSWORD": ["example.org"]}',
    )
    browser_files: Path | None = Field(
        None, description="the path of the folder from which files may be uploaded"
    )

    @property
    def archive(self) -> Path:
        """Where archived runs are: `archive_dir`, or the folder `archive` of the data directory."""
        return self.archive_dir if self.archive_dir is not None else self.data_dir / "archive"

    _dotenv: Mapping[str, str | None] = PrivateAttr(default_factory=dict)

    @property
    def browser_socket_path(self) -> Path:
        """Where the browser bridge listens: as set, or in the data folder, if that is not long."""
        if self.browser_socket is not None:
            return self.browser_socket
        return short_socket_path(self.data_dir / "browser.sock")

    def provider_key(self, name: str) -> SecretStr | None:
        """
        A provider's key under its usual name, or None: for `openai` that of `OPENAI_API_KEY`. A
        name in capitals is taken as the variable itself. Its `repr` and `str` are stars.
        """
        variable = name if name.isupper() else f"{name.upper().replace('-', '_')}_API_KEY"
        value = os.environ.get(variable) or self._dotenv.get(variable)
        return SecretStr(value) if value else None

    def unknown_names(self) -> list[str]:
        """Variables that begin with `MULLIGAN_` and mean nothing: typing errors, most likely."""
        known = {PREFIX + name.upper() for name in type(self).model_fields}
        names = {*os.environ, *self._dotenv}
        return sorted(name for name in names if name.startswith(PREFIX) and name not in known)

    def child_environment(self, *, armed: bool) -> dict[str, str]:
        """The environment for a process of ours; without its crash points unless `armed`."""
        environment = dict(os.environ)
        if not armed:
            environment[f"{PREFIX}CRASH_AT"] = ""
        return environment


def load_settings() -> Settings:
    """
    Read the environment and `.env`.

    Raises:
        InvalidInput: a value that can't be used; the message names every such variable, what it
            must be, and what to do. It never quotes a value: a URL may hold a password.
        EnvironmentUnfit: `.env` is there and can't be read.
    """
    try:
        dotenv = dotenv_values(ENV_FILE, encoding="utf-8")
        settings = Settings()
    except (OSError, UnicodeDecodeError) as error:
        raise EnvironmentUnfit(
            f"{ENV_FILE} can't be read ({type(error).__name__}); make it a UTF-8 text file that "
            "this user may read, or remove it"
        ) from None
    except ValidationError as error:
        raise InvalidInput(_explained(error)) from None
    if settings.lease_margin_ms >= settings.lease_ms:
        raise InvalidInput(
            "MULLIGAN_LEASE_MARGIN_MS must be below MULLIGAN_LEASE_MS: a lease whose margin is as "
            "long as itself starts no work"
        )
    settings._dotenv = dotenv
    return settings


MAX_SOCKET_PATH = 100
"""Bytes of a unix socket's path; systems take 103 at least."""


def short_socket_path(path: Path) -> Path:
    """`path`, or one in the folder of temporary files that stands for it, if it is too long."""
    full = path.absolute()
    if len(os.fsencode(full)) <= MAX_SOCKET_PATH:
        return full
    name = hashlib.sha256(os.fsencode(full)).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"mulligan-{os.getuid()}-{name}.sock"


def _explained(error: ValidationError) -> str:
    """One line for every variable that can't be used."""
    names = dict.fromkeys(str(problem["loc"][0]).lower() for problem in error.errors())
    lines = []
    for name in names:
        field = name.removeprefix(PREFIX.lower())
        wanted = Settings.model_fields[field].description
        lines.append(
            f"{PREFIX}{field.upper()} must be {wanted}; "
            f"correct it in the environment or {ENV_FILE}, or unset it for the default"
        )
    return "\n".join(lines)


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
