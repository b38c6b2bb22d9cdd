"""
The commands of `web_use`, one shape each, and how they are read from a model's flat arguments.

There is no `open`: to observe or to navigate to a URL without a page opens one in the background.
A `page` is a token that an earlier result gave; it can be used once, and each result that has a
page gives the next. An `element` is a reference of the observation's snapshot, such as `e12`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, get_args

import msgspec
from msgspec import Meta

from mulligan.events.facts import EffectClass
from mulligan.tools.web_use.codes import WebUseFailed
from mulligan.tools.web_use.conditions import CONDITIONS, ConditionName

__all__ = [
    "ACTIONS",
    "COMMANDS",
    "NO_WRITES",
    "Act",
    "Click",
    "Close",
    "Command",
    "Condition",
    "Hover",
    "ListPages",
    "Navigate",
    "Observe",
    "Press",
    "Screenshot",
    "Scroll",
    "Select",
    "Type",
    "Upload",
    "Verify",
    "effect_of",
    "flat",
    "parse",
]

MAX_TEXT = 100_000
MAX_URL = 8_192
MAX_WAIT_MS = 60_000
Text = Annotated[str, Meta(max_length=MAX_TEXT)]
Name = Annotated[str, Meta(min_length=1, max_length=200)]
Url = Annotated[str, Meta(min_length=1, max_length=MAX_URL)]
WaitMs = Annotated[int, Meta(ge=0, le=MAX_WAIT_MS)]


class _Shape(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """What every shape is: closed, and made once."""


class Condition(_Shape, frozen=True, kw_only=True):
    """
    Something that a page shows or does not. Texts are looked for in what a reader sees, letter by
    letter; `element_present` takes a role and a name as the snapshot writes them: `button "Save"`.
    """

    condition: ConditionName
    value: Annotated[str, Meta(min_length=1, max_length=1_000)]


Conditions = Annotated[tuple[Condition, ...], Meta(max_length=10)]

# --- Commands that only look ----------------------------------------------------------------------


class ListPages(_Shape, frozen=True, kw_only=True, tag="list_pages", tag_field="command"):
    """The pages of the run's window, and of those that were opened to it."""


class Observe(_Shape, frozen=True, kw_only=True, tag="observe", tag_field="command"):
    """
    What a page is like now: one of `page` and `url`; a `url` alone opens a page. With `since` (an
    observation's id) the snapshot is the difference from that one.
    """

    page: Name | None = None
    url: Url | None = None
    since: Name | None = None


class Verify(_Shape, frozen=True, kw_only=True, tag="verify", tag_field="command"):
    """Whether all `conditions` hold on a page, within `wait_ms`."""

    page: Name
    conditions: Annotated[tuple[Condition, ...], Meta(min_length=1, max_length=10)]
    wait_ms: WaitMs = 2_000


class Close(_Shape, frozen=True, kw_only=True, tag="close", tag_field="command"):
    """Close a page."""

    page: Name


# --- Acts -----------------------------------------------------------------------------------------


class _Act(_Shape, frozen=True, kw_only=True, tag_field="action"):
    """
    What acts have in common. `evidence` is what will show that the act has done what it is for: it
    must not hold before, and must hold within `wait_ms` after. `failures` are signs that it may
    not have: where one of them appears, no evidence counts.
    """

    evidence: Conditions = ()
    failures: Conditions = ()
    wait_ms: WaitMs = 5_000


class Navigate(_Act, frozen=True, kw_only=True, tag="navigate"):
    """Go to `url`, on a page, or on one that is opened for it."""

    url: Url
    page: Name | None = None


class _OnElement(_Act, frozen=True, kw_only=True):
    """An act on an element of an observation."""

    page: Name
    observation: Name
    element: Name


class Click(_OnElement, frozen=True, kw_only=True, tag="click"):
    """Click an element."""


class Type(_OnElement, frozen=True, kw_only=True, tag="type"):
    """
    Put `text`, or the secret of the name `secret`, into a field, in the place of what it holds. The
    bridge knows secrets; their values are in no command.
    """

    text: Text | None = None
    secret: Name | None = None


class Press(_Act, frozen=True, kw_only=True, tag="press"):
    """Press a key such as `Enter`, `Tab` or `Control+A`, on an element, or where the focus is."""

    page: Name
    observation: Name
    key: Name
    element: Name | None = None


class Scroll(_Act, frozen=True, kw_only=True, tag="scroll"):
    """Scroll the page, or an element into view and then within it, by `dy` pixels."""

    page: Name
    observation: Name
    element: Name | None = None
    dy: Annotated[int, Meta(ge=-100_000, le=100_000)] = 600


class Hover(_OnElement, frozen=True, kw_only=True, tag="hover"):
    """Move the pointer over an element."""


class Select(_OnElement, frozen=True, kw_only=True, tag="select"):
    """Choose options of a list by label or value."""

    values: Annotated[tuple[Text, ...], Meta(min_length=1, max_length=100)]


class Upload(_OnElement, frozen=True, kw_only=True, tag="upload"):
    """Give files to a file field; paths under the folder that the bridge gives files from."""

    files: Annotated[tuple[Text, ...], Meta(min_length=1, max_length=20)]


class Screenshot(_Act, frozen=True, kw_only=True, tag="screenshot"):
    """A picture of what the page shows, as a file of the bridge's folder."""

    page: Name


Act = Navigate | Click | Type | Press | Scroll | Hover | Select | Upload | Screenshot
Command = ListPages | Observe | Verify | Close | Act

_ACTS: dict[str, type[Act]] = {str(one.__struct_config__.tag): one for one in get_args(Act)}
_OTHERS: dict[str, type[ListPages] | type[Observe] | type[Verify] | type[Close]] = {
    "list_pages": ListPages,
    "observe": Observe,
    "verify": Verify,
    "close": Close,
}
ACTIONS = tuple(_ACTS)
COMMANDS = ("list_pages", "observe", "act", "verify", "close")

# --- Reading --------------------------------------------------------------------------------------


def parse(arguments: Mapping[str, Any]) -> Command:
    """
    The command that flat arguments (JSON values) stand for; a null counts as left out.

    Raises WebUseFailed: `invalid_command`, `unsupported_action` for an unknown action, or
    `invalid_arguments`, which says what is wrong and quotes no value.
    """
    given = {name: value for name, value in arguments.items() if value is not None}
    _check_text(given)
    command = given.pop("command", None)
    if command not in COMMANDS:
        raise WebUseFailed("invalid_command", f"command is one of {', '.join(COMMANDS)}")
    if command != "act":
        return _checked(_converted(given, _OTHERS[command]))
    action = given.get("action")
    if action is None:
        raise WebUseFailed("invalid_arguments", f"act needs an action: {', '.join(ACTIONS)}")
    if action not in ACTIONS:
        raise WebUseFailed("unsupported_action", f"action is one of {', '.join(ACTIONS)}")
    return _checked(_converted(given, _ACTS[action]))


def _check_text(given: Mapping[str, Any]) -> None:
    """The way to the bridge takes text: no halves of surrogate pairs, and no bottomless depth."""
    try:
        msgspec.json.encode(given)
    except (UnicodeEncodeError, RecursionError, TypeError, OverflowError):
        raise WebUseFailed(
            "invalid_arguments", "arguments: text that is no Unicode, or a value that is no JSON"
        ) from None


def flat(command: Command) -> dict[str, Any]:
    """A command as the flat arguments that `parse` reads."""
    plain: dict[str, Any] = msgspec.to_builtins(command)
    return plain if "command" in plain else {"command": "act", **plain}


def _converted(given: dict[str, Any], shape: type[Any]) -> Any:
    try:
        return msgspec.convert(given, shape)
    except msgspec.ValidationError as error:
        place = str(error).partition(" - at `$")[2].rstrip("`").lstrip(".")
        detail = _told(str(error), shape)
        raise WebUseFailed("invalid_arguments", f"{place or 'arguments'}: {detail}") from None


def _told(message: str, shape: type[Any]) -> str:
    """A library's message without the value that it may quote."""
    text = message.partition(" - at ")[0]
    if text.startswith("Invalid enum value"):
        return f"not one of {', '.join(CONDITIONS)}"
    if "unknown field" in text:
        return f"{text}; there are {', '.join(shape.__struct_fields__)}"
    return text


def _checked(command: Command) -> Command:
    """What a shape alone can't say."""
    match command:
        case Observe(page=None, url=None):
            raise WebUseFailed("invalid_arguments", "observe needs a page or a url")
        case Observe(page=str(), url=str()):
            raise WebUseFailed(
                "invalid_arguments", "observe takes a page or a url; to move a page, navigate it"
            )
        case Type(text=None, secret=None) | Type(text=str(), secret=str()):
            raise WebUseFailed("invalid_arguments", "type needs either a text or a secret")
        case _:
            return command


NO_WRITES: dict[type[Command], EffectClass] = {
    ListPages: "read",
    Observe: "read",
    Verify: "read",
    Close: "read",
    Screenshot: "read",
    Navigate: "idempotent",
    Scroll: "idempotent",
    Hover: "idempotent",
}
"""
What may be repeated after a crash (REC-31). To navigate is a request that HTTP calls safe, and to
scroll and to hover are none; the bridge does each once under its id. All else puts something into a
page.
"""


def effect_of(command: Command) -> EffectClass:
    """Whether a command may be repeated after a crash."""
    return NO_WRITES.get(type(command), "write")
