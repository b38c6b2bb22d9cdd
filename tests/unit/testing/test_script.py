"""
The script of a scripted model: what it may say, and errors that point at the line.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from mulligan.errors import InvalidInput
from mulligan.testing.faults import Cut
from mulligan.testing.script import Match, Script, parse_script, read_script, script_of
from mulligan.testing.script_player import ScriptPlayer

FROM_THE_DOCS = """\
on_exhausted: error
turns:
  - match: {node: collect, attempt: 1}
    tool_calls: [{name: search, arguments: '{"q": "x"}'}]
  - text: "hello"
    chunks: 7
    finish_reason: length
    usage: {prompt_tokens: 10, completion_tokens: 4}
    delay_ms: 0
    fault: {kind: cut, at_byte: 120}
"""


def test_a_script_as_documented() -> None:
    script = parse_script(FROM_THE_DOCS)

    first, second = script.turns
    assert Match(node="collect", attempt=1) == first.match
    assert '{"q": "x"}' == first.tool_calls[0].arguments
    assert ("hello", 7, "length") == (second.text, second.chunks, second.finish_reason)
    assert Cut(at_byte=120) == second.fault


def test_left_out_and_null_differ() -> None:
    """REC-12: null is no finish reason at all."""
    left_out, null = parse_script("turns: [{text: a}, {text: a, finish_reason: null}]").turns

    assert left_out.finish_reason is msgspec.UNSET
    assert null.finish_reason is None


@pytest.mark.parametrize(
    ("source", "says"),
    [
        (
            "turns:\n  - text: a\n    finish_resaon: x",
            ":3: turns[0].finish_resaon: unknown key (did",
        ),
        ("turnz: []", ":1: turnz: unknown key (did you mean turns?)"),
        ("turns: [{text: a, zzz: 1}]", "unknown key (known: match, times, reasoning, text"),
        (
            "turns:\n - match:\n    nod: a",
            ":3: turns[0].match.nod: unknown key (did you mean node?)",
        ),
        (
            "turns:\n - fault:\n    kind: cut\n    at_bite: 3",
            ":4: turns[0].fault.at_bite: unknown key (did you mean at_byte?)",
        ),
        ("turns:\n - fault: {kind: cutt}", ":2: turns[0].fault.kind: invalid value 'cutt'"),
        (
            "turns:\n - fault: {at_byte: 1}",
            ":2: turns[0].fault: object missing required field `kind`",
        ),
        ("turns:\n - tool_calls: [{nam: a}]", ":2: turns[0].tool_calls[0]"),
        ("turns:\n - text: 3", ":2: turns[0].text: expected `str | null`, got `int`"),
        ("turns:\n - chunks: 0", ":2: turns[0].chunks: "),
        ("turns:\n - {text: ab, chunks: [a, c]}", ":2: turns[0]: `chunks` as pieces"),
        ("turns:\n - {text: ab, chunks: []}", ":2: turns[0]: `chunks` is empty"),
        ("turns:\n - delay_ms: -1", ":2: turns[0].delay_ms: "),
        ("on_exhausted: stop\nturns: []", ":1: on_exhausted: invalid enum value 'stop'"),
        ("{}", "object missing required field `turns`"),
        ("- text: a", ":1: a script is a mapping"),
        ("", ":1: a script is a mapping"),
        ("turns: [", ":1: not valid YAML"),
        ("turns: []\nturns: []", ":2: not valid YAML: found duplicate key"),
    ],
)
def test_a_wrong_script_is_an_error_with_line_and_hint(source: str, says: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_script(source, "demo.yaml")

    assert str(caught.value).startswith("demo.yaml:")
    assert says in str(caught.value)


def test_files_in_yaml_and_json(tmp_path: Path) -> None:
    for name, text in (("a.yaml", "turns: [{text: a}]"), ("a.json", '{"turns": [{"text": "a"}]}')):
        (tmp_path / name).write_text(text)
        assert "a" == read_script(tmp_path / name).turns[0].text


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"none\.yaml: can't read the script: No such file"):
        read_script(tmp_path / "none.yaml")


@pytest.mark.parametrize("script", [[{"text": "a"}], {"turns": [{"text": "a"}]}])
def test_scripts_of_python_values(script: Any) -> None:
    assert "a" == script_of(script).turns[0].text
    with pytest.raises(InvalidInput, match="unknown key"):
        script_of([{"txt": "a"}])


def play(script: Script, *seen: Match) -> list[int | None]:
    player = ScriptPlayer(script)
    return [player.next_turn(request) for request in seen]


ANY = Match()
COLLECT = Match(node="collect", attempt=1, rounds=0)


def test_turns_are_played_once_and_in_order() -> None:
    assert [0, 1, None] == play(script_of([{}, {}]), ANY, ANY, ANY)


def test_a_turn_with_a_match_waits_for_its_request() -> None:
    script = script_of([{}, {"match": {"node": "collect"}}])

    assert [1, 0, None] == play(script, COLLECT, COLLECT, COLLECT)
    assert [0, None] == play(script, Match(node="join"), Match(node="join"))


def test_all_that_a_match_says_must_fit() -> None:
    script = script_of([{"match": {"node": "collect", "attempt": 2}}])

    assert [None, 0] == play(script, COLLECT, Match(node="collect", attempt=2))


def test_times() -> None:
    script = script_of([{"times": 2}, {"times": "always"}])

    assert [0, 0, 1, 1] == play(script, ANY, ANY, ANY, ANY)


def test_repeat_last_repeats_the_last_turn_that_fits() -> None:
    script = script_of(
        {"on_exhausted": "repeat_last", "turns": [{"match": {"node": "collect"}}, {}, {}]}
    )

    assert [0, 1, 2, 0] == play(script, COLLECT, ANY, ANY, COLLECT)
    assert [1, 2, 2] == play(script, ANY, ANY, ANY)
