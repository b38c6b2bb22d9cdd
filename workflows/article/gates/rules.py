"""
The rules that a text is held to: the data files beside this one, and a user's over them.

A user's file (YAML) may name a `profile`, a `brief`, numbers of `gates`, and `add` or `remove`
phrases of the lists `banned` and `slop`. What is wrong in it is told with its line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from mulligan.errors import InvalidInput
from mulligan.schemas.problems import Problem, describe, did_you_mean
from mulligan.schemas.yaml_source import Document as Source
from mulligan.schemas.yaml_source import read_document
from mulligan.workflows.article.gates.phrases import Phrase, phrase_of


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class GateRules(_Strict):
    """The numbers of a gate: only those that its entry in gates.yaml has mean something to it."""

    weight: float = Field(1, ge=0)
    threshold: float = 0
    half: float = Field(1, gt=0)
    low: float = 0
    high: float = 0
    section_low: float = 0
    section_high: float = 0


class Part(_Strict):
    """A part of the slop score."""

    share: float = Field(ge=0)
    half: float = Field(1, gt=0)
    starts: float = Field(0, alias="from")
    until: float = 0


class Format(_Strict):
    """What an article of a format has, at least; of lists, at most that share of its words."""

    sections: int = 0
    numbered_items: int = 0
    items: int = 0
    tables: int = 0
    questions: int = 0
    list_share: float = 1.0


class Brief(_Strict):
    """What was asked for. Words are counted without headings and structure."""

    target_words: int | None = Field(None, ge=1)
    section_words: dict[str, Annotated[int, Field(ge=1)]] = {}
    keyword: str | None = Field(None, min_length=1)
    format: str | None = None


class Entry(_Strict):
    """A phrase as it is written in a list."""

    find: str
    use: str | None = None
    why: str | None = None
    starts: bool = False
    weight: float = Field(1, gt=0)


class Marker(_Strict):
    """A mark that no reader should see; `delete` says that the text is right without it."""

    id: str
    pattern: str
    delete: bool


class ListChange(_Strict):
    """What a user adds to a list of phrases, and removes by id."""

    add: tuple[Entry, ...] = ()
    remove: tuple[str, ...] = ()


class _Defaults(_Strict):
    profile: str
    profiles: dict[str, tuple[str, ...]]
    gates: dict[str, GateRules]
    slop_parts: dict[str, Part]
    structure: dict[str, tuple[str, ...]]
    pronouns: tuple[str, ...]
    formats: dict[str, Format]


class Config(_Strict):
    """A user's file."""

    profile: Literal["prose", "article"] | None = None
    brief: Brief = Brief()
    only: tuple[str, ...] | None = None
    """the gates to run, in this order, in place of the profile's"""
    gates: dict[str, dict[str, float]] = {}
    banned: ListChange = ListChange()
    slop: ListChange = ListChange()
    structure: dict[str, tuple[str, ...]] = {}


class Rules(NamedTuple):
    """All that gates go by. `names` are the gates to run, in their declared order."""

    profile: str
    names: tuple[str, ...]
    brief: Brief
    gates: Mapping[str, GateRules]
    banned: tuple[Phrase, ...]
    slop: tuple[Phrase, ...]
    markers: tuple[Marker, ...]
    slop_parts: Mapping[str, Part]
    structure: Mapping[str, tuple[str, ...]]
    pronouns: frozenset[str]
    formats: Mapping[str, Format]


def rules_from(data: bytes | None = None, source: str = "") -> Rules:
    """
    The rules, with a user's file over them if one is given; `source` is what errors call it.

    Raises InvalidInput with every problem of the file, each with its line.
    """
    if data is None:
        return rules_of(Config())
    read = read_document(data)
    problems = list(read.problems)
    config: Config | None = None
    if not problems:
        config, problems = _config(read.value if read.value is not None else {})
    if config is not None and not problems:
        problems = _problems(config)
    if config is None or problems:
        told = [describe(source, one, read.line(one)) for one in problems]
        raise InvalidInput("\n".join(told))
    return rules_of(config)


def _config(value: Any) -> tuple[Config | None, list[Problem]]:
    try:
        return Config.model_validate(value), []
    except ValidationError as error:
        return None, [
            _problem(tuple(one["loc"]), one["type"], one["msg"]) for one in error.errors()
        ]


def _problem(place: tuple[int | str, ...], kind: str, message: str) -> Problem:
    if kind == "extra_forbidden":
        known = (
            Config.model_fields if len(place) == 1 else _KNOWN.get(place[0], Config).model_fields
        )
        return Problem(place, f"unknown key{did_you_mean(str(place[-1]), known)}")
    return Problem(place, message)


_KNOWN: dict[Any, type[BaseModel]] = {"brief": Brief, "banned": Entry, "slop": Entry}


def _problems(config: Config) -> list[Problem]:
    defaults = _defaults()
    problems = [
        Problem(("only", n), f"no gate {name!r}{did_you_mean(name, defaults.gates)}")
        for n, name in enumerate(config.only or ())
        if name not in defaults.gates
    ]
    if config.only == ():
        problems.append(Problem(("only",), "names no gate"))
    for name, numbers in config.gates.items():
        problems += _gate_problems(name, numbers)
    for name, change in (("banned", config.banned), ("slop", config.slop)):
        problems += _list_problems(name, change)
    asked = config.brief.format
    if asked is not None and asked not in defaults.formats:
        hint = did_you_mean(asked, defaults.formats) or f"; there are {', '.join(defaults.formats)}"
        problems.append(Problem(("brief", "format"), f"no format {asked!r}{hint}"))
    return problems or _weight_problems(config)


def _weight_problems(config: Config) -> list[Problem]:
    rules = rules_of(config)
    if any(rules.gates[name].weight > 0 for name in rules.names):
        return []
    return [Problem(("gates",), "no gate that is asked has a weight above 0")]


def _gate_problems(name: str, numbers: Mapping[str, float]) -> list[Problem]:
    place = ("gates", name)
    known = _numbers().get(name)
    if known is None:
        return [Problem(place, f"no gate {name!r}{did_you_mean(name, _numbers())}")]
    wrong = [
        Problem((*place, key), f"unknown key{did_you_mean(key, known)}")
        for key in numbers
        if key not in known
    ]
    if wrong:
        return wrong
    try:
        GateRules.model_validate({**known, **numbers})
    except ValidationError as error:
        return [Problem((*place, *one["loc"]), one["msg"]) for one in error.errors()]
    return []


def _list_problems(name: str, change: ListChange) -> list[Problem]:
    known = {phrase.id for phrase in _shipped(name)}
    problems = [
        Problem((name, "remove", n), f"no entry {one!r}{did_you_mean(one, known)}")
        for n, one in enumerate(change.remove)
        if one not in known
    ]
    for n, entry in enumerate(change.add):
        try:
            phrase_of(**entry.model_dump())
        except ValueError as error:
            problems.append(Problem((name, "add", n, "find"), str(error)))
    return problems


def rules_of(config: Config) -> Rules:
    """The shipped rules with a user's over them; the config has no problems."""
    defaults, numbers = _defaults(), _numbers()
    gates = {
        name: GateRules.model_validate({**own, **config.gates.get(name, {})})
        for name, own in numbers.items()
    }
    profile = config.profile or defaults.profile
    return Rules(
        profile=profile,
        names=config.only or defaults.profiles[profile],
        brief=config.brief,
        gates=gates,
        banned=_changed("banned", config.banned),
        slop=_changed("slop", config.slop),
        markers=_markers(),
        slop_parts=defaults.slop_parts,
        structure=_merged(defaults.structure, config.structure),
        pronouns=frozenset(defaults.pronouns),
        formats=defaults.formats,
    )


def _merged(
    shipped: Mapping[str, tuple[str, ...]], own: Mapping[str, Sequence[str]]
) -> dict[str, tuple[str, ...]]:
    return {
        role: (*shipped.get(role, ()), *(name.lower() for name in own.get(role, ())))
        for role in {**shipped, **own}
    }


def _changed(name: str, change: ListChange) -> tuple[Phrase, ...]:
    kept = [phrase for phrase in _shipped(name) if phrase.id not in change.remove]
    return (*kept, *(phrase_of(**entry.model_dump()) for entry in change.add))


# --- What ships ----------------------------------------------------------------------------------


def _read(name: str) -> Any:
    source: Source = read_document((resources.files(__package__) / "data" / name).read_bytes())
    if source.problems:
        raise AssertionError(describe(name, source.problems[0], source.line(source.problems[0])))
    return source.value


@cache
def _defaults() -> _Defaults:
    return _Defaults.model_validate(_read("gates.yaml"))


@cache
def _numbers() -> dict[str, dict[str, float]]:
    return dict(_read("gates.yaml")["gates"])


@cache
def _shipped(name: str) -> tuple[Phrase, ...]:
    entries = [Entry.model_validate(one) for one in _read(f"{name}.yaml")]
    return tuple(phrase_of(**entry.model_dump()) for entry in entries)


@cache
def _markers() -> tuple[Marker, ...]:
    return tuple(Marker.model_validate(one) for one in _read("markers.yaml"))
