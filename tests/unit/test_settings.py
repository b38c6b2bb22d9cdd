"""UI-2: settings from the environment and `.env`, and errors that say what to do."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mulligan.errors import EnvironmentUnfit, InvalidInput
from mulligan.settings import RequestLimit, load_settings, next_database, without_password


@pytest.fixture(autouse=True)
def empty_surroundings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    prefixes = ("MULLIGAN_", "OPENAI_", "OTEL_")
    for name in [name for name in os.environ if name.startswith(prefixes)]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


def test_nothing_set_means_the_embedded_server_and_the_default_lease() -> None:
    settings = load_settings()

    assert settings.redis_url is None
    assert settings.broker_url is None
    assert settings.data_dir == Path(".mulligan")
    assert (settings.lease_ms, settings.lease_margin_ms, settings.lease_grace_ms) == (
        10_000,
        1_000,
        2_000,
    )


def test_the_environment_wins_over_dotenv(monkeypatch: pytest.MonkeyPatch) -> None:
    Path(".env").write_text("MULLIGAN_MODEL=from-file\nMULLIGAN_LOG_LEVEL=debug\nOTHER=1\n")
    monkeypatch.setenv("MULLIGAN_MODEL", "from-environment")

    settings = load_settings()

    assert settings.model == "from-environment"
    assert settings.log_level == "debug"


def test_every_variable_is_read_as_what_it_must_be(monkeypatch: pytest.MonkeyPatch) -> None:
    told: dict[str, tuple[str, object]] = {
        "redis_url": ("unix:///tmp/s?db=0", "unix:///tmp/s?db=0"),
        "broker_url": ("stub://", "stub://"),
        "partitions": ("4", 4),
        "model": ("null", "null"),
        "api_base": ("http://host/v1", "http://host/v1"),
        "model_limits": ('{"a": {"concurrent": 1}}', {"a": RequestLimit(concurrent=1)}),
        "data_dir": ("here", Path("here")),
        "archive_dir": ("there", Path("there")),
        "intents_dir": ("noted", Path("noted")),
        "write_intents": ("synced", "synced"),
        "payload_keys": (f"a:{'k' * 43}", f"a:{'k' * 43}"),
        "payload_keys_file": ("keys", Path("keys")),
        "log_level": ("error", "error"),
        "repetition_max_period": ("1", 1),
        "repetition_min_repeats": ("2", 2),
        "repetition_min_bytes": ("1", 1),
        "crash_at": ("p:kill", "p:kill"),
        "crash_ask": ("asked", Path("asked")),
        "lease_ms": ("300", 300),
        "lease_margin_ms": ("20", 20),
        "lease_grace_ms": ("1", 1),
        "browser_socket": ("s", Path("s")),
        "browser_executable": ("/c", Path("/c")),
        "browser_allow": ('["a", "b"]', ("a", "b")),
        "browser_networks": ('["10.0.0.0/8"]', ("10.0.0.0/8",)),
        "browser_secrets": ('{"A": ["b"]}', {"A": ("b",)}),
        "browser_files": ("f", Path("f")),
        "http_tokens": (f"{'t' * 32},{'u' * 32}", f"{'t' * 32},{'u' * 32}"),
        "http_hosts": ('["a.example"]', ("a.example",)),
    }
    for name, (text, _) in told.items():
        monkeypatch.setenv(f"MULLIGAN_{name.upper()}", text)

    settings = load_settings()

    assert {name: value for name, (_, value) in told.items()} == {
        name: getattr(settings, name) for name in settings.__struct_fields__ if name != "dotenv"
    }


def test_what_is_given_wins_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MULLIGAN_LEASE_MS", "no number")
    monkeypatch.setenv("MULLIGAN_MODEL", "from-environment")

    settings = load_settings(lease_ms=5_000)

    assert (settings.lease_ms, settings.model) == (5_000, "from-environment")


def test_an_empty_value_counts_as_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MULLIGAN_REDIS_URL", "")

    assert load_settings().redis_url is None


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("MULLIGAN_REDIS_URL", "localhost:6379", "redis://"),
        ("MULLIGAN_REDIS_URL", "redis://", "redis://"),
        ("MULLIGAN_BROKER_URL", "kafka://x", "amqp"),
        ("MULLIGAN_API_BASE", "example.com/v1", "https://"),
        ("MULLIGAN_LOG_LEVEL", "loud", "warning"),
        ("MULLIGAN_LEASE_MS", "10s", "milliseconds"),
        ("MULLIGAN_LEASE_MS", "-5", "milliseconds"),
        ("MULLIGAN_LEASE_GRACE_MS", "0", "milliseconds"),
        ("MULLIGAN_PARTITIONS", "1025", "1 to 1024"),
        ("MULLIGAN_BROWSER_NETWORKS", '["10.0.0.0/99"]', "JSON list"),
        ("MULLIGAN_BROWSER_ALLOW", "example.org", "JSON list"),
        ("MULLIGAN_BROWSER_SECRETS", '{"A": "b"}', "JSON object"),
    ],
)
def test_a_bad_value_names_the_variable_and_what_it_must_be(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, wanted: str
) -> None:
    monkeypatch.setenv(name, value)

    with pytest.raises(InvalidInput) as raised:
        load_settings()

    assert raised.value.exit_code == 2
    assert name in str(raised.value)
    assert wanted in str(raised.value)
    assert "pydantic" not in str(raised.value)
    assert raised.value.__cause__ is None


def test_every_bad_value_is_named_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MULLIGAN_LEASE_MS", "x")
    Path(".env").write_text("MULLIGAN_LOG_LEVEL=loud\n")

    with pytest.raises(InvalidInput, match=r"(?s)LOG_LEVEL.*LEASE_MS|LEASE_MS.*LOG_LEVEL"):
        load_settings()


def test_an_error_does_not_quote_a_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MULLIGAN_REDIS_URL", "postgres://me:hunter2@host")

    with pytest.raises(InvalidInput) as raised:
        load_settings()

    assert "hunter2" not in str(raised.value)


def test_a_margin_as_long_as_the_lease_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MULLIGAN_LEASE_MARGIN_MS", "10000")

    with pytest.raises(InvalidInput, match="MULLIGAN_LEASE_MARGIN_MS"):
        load_settings()


def test_a_dotenv_that_is_no_text_is_named() -> None:
    Path(".env").write_bytes(b"\xff\xfe\x00")

    with pytest.raises(EnvironmentUnfit, match=r"\.env"):
        load_settings()


def test_provider_keys_are_found_and_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    Path(".env").write_text("ANTHROPIC_API_KEY=sk-from-file\n")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-from-environment")
    settings = load_settings()

    openai, anthropic = settings.provider_key("openai"), settings.provider_key("ANTHROPIC_API_KEY")

    assert openai is not None
    assert openai.get_secret_value() == "sk-from-environment"
    assert anthropic is not None
    assert anthropic.get_secret_value() == "sk-from-file"
    assert settings.provider_key("mistral") is None
    assert "sk-" not in f"{settings!r} {openai!r} {openai} {anthropic!r}"


def test_urls_with_passwords_are_not_in_the_repr(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MULLIGAN_REDIS_URL", "redis://:hunter2@host:1/0")

    assert "hunter2" not in repr(load_settings())


def test_a_misspelled_variable_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MULLIGAN_REDISURL", "redis://host")
    Path(".env").write_text("MULLIGAN_MODELL=x\n")

    assert load_settings().unknown_names() == ["MULLIGAN_MODELL", "MULLIGAN_REDISURL"]


def test_a_child_that_is_not_armed_has_no_crash_points(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MULLIGAN_CRASH_AT", "node.claimed:kill")
    settings = load_settings()

    assert settings.child_environment(armed=True)["MULLIGAN_CRASH_AT"] == "node.claimed:kill"
    assert not settings.child_environment(armed=False)["MULLIGAN_CRASH_AT"]


@pytest.mark.parametrize(
    ("url", "following"),
    [
        ("redis://host:6379", "redis://host:6379/1"),
        ("redis://me:p@host:6379/3", "redis://me:p@host:6379/4"),
        ("redis://host/0?db=2", "redis://host/0?db=3"),
        ("unix:///a%20b/s?db=0", "unix:///a%20b/s?db=1"),
        ("unix:///a/s", "unix:///a/s?db=1"),
    ],
)
def test_the_broker_lives_in_the_next_database(url: str, following: str) -> None:
    assert next_database(url) == following


def test_a_shown_url_has_no_password() -> None:
    assert without_password("redis://me:hunter2@host:1/0") == "redis://me:***@host:1/0"
    assert without_password("unix:///s?password=hunter2&db=1") == "unix:///s?password=***&db=1"


def test_rec_34_limits_of_models_are_read_from_json(monkeypatch: pytest.MonkeyPatch) -> None:
    text = '{"openai/gpt-5": {"concurrent": 10, "per_minute": 500}, "groq": {"concurrent": 4}}'
    monkeypatch.setenv("MULLIGAN_MODEL_LIMITS", text)

    limits = load_settings().model_limits

    assert limits["openai/gpt-5"].per_minute == 500
    assert (limits["groq"].concurrent, limits["groq"].per_minute) == (4, None)


@pytest.mark.parametrize(
    "text",
    [
        "ten",
        "[]",
        "[" * 100_000,
        '{"openai": {}}',
        '{"openai": {"concurrent": 0}}',
        '{"openai": {"per_minute": -1}}',
        '{"openai": {"per_minute": true}}',
        '{"openai": {"per_minute": 0.5}}',
        '{"openai": {"concurrent": 1000001}}',
        '{"openai": {"at_once": 3}}',
    ],
)
def test_rec_34_limits_that_say_nothing_are_refused(
    monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setenv("MULLIGAN_MODEL_LIMITS", text)

    with pytest.raises(InvalidInput, match="MULLIGAN_MODEL_LIMITS must be a JSON object"):
        load_settings()


ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"


@pytest.mark.parametrize(
    ("variables", "exporters"),
    [
        ({}, ()),
        ({ENDPOINT: "http://collector:4318"}, ("otlp",)),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://collector/traces"}, ("otlp",)),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, ("otlp",)),
        ({"OTEL_TRACES_EXPORTER": "console, otlp"}, ("otlp", "console")),
        ({"OTEL_TRACES_EXPORTER": "none", ENDPOINT: "http://collector:4318"}, ()),
        ({"OTEL_SDK_DISABLED": "true", ENDPOINT: "http://collector:4318"}, ()),
    ],
)
def test_spans_go_where_opentelemetrys_variables_say(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], exporters: tuple[str, ...]
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    assert load_settings().span_exporters() == exporters


def test_spans_go_where_dotenv_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.environ", dict(os.environ))
    Path(".env").write_text(f"{ENDPOINT}=http://collector:4318\n")

    assert load_settings().span_exporters() == ("otlp",)
    assert os.environ[ENDPOINT] == "http://collector:4318"


@pytest.mark.parametrize(
    ("variables", "wanted"),
    [
        ({"OTEL_TRACES_EXPORTER": "jaeger"}, "OTEL_TRACES_EXPORTER must be otlp, console"),
        (
            {ENDPOINT: "http://collector:4317", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
            "OTEL_EXPORTER_OTLP_PROTOCOL must be http/protobuf",
        ),
    ],
)
def test_what_spans_can_not_be_sent_by_is_refused(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], wanted: str
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    with pytest.raises(InvalidInput, match=wanted):
        load_settings().span_exporters()
