from typing import Any

import msgspec


class Evidence(msgspec.Struct, frozen=True):
    finish_reason: str | None
    terminal: bool
    completion_tokens: int | None = None
    max_tokens_sent: int | None = None


class Step(msgspec.Struct, frozen=True):
    name: str
    path: str = ""


class Issue(msgspec.Struct, frozen=True):
    code: str
    path: str = ""
    schema_path: str = ""
    message: str = ""


class Completed(msgspec.Struct, frozen=True):
    output: Any
    assistant_message: str | None = None
    steps: tuple[Step, ...] = ()
    coercions: tuple[Step, ...] = ()


class TruncatedResponse(msgspec.Struct, frozen=True):
    issues: tuple[Issue, ...] = ()


class Refused(msgspec.Struct, frozen=True):
    issues: tuple[Issue, ...] = ()


class InvalidJson(msgspec.Struct, frozen=True):
    issues: tuple[Issue, ...] = ()


class WrongEnvelope(msgspec.Struct, frozen=True):
    issues: tuple[Issue, ...] = ()


class SchemaViolation(msgspec.Struct, frozen=True):
    issues: tuple[Issue, ...] = ()


Verdict = Completed | TruncatedResponse | Refused | InvalidJson | WrongEnvelope | SchemaViolation
