"""
Python code that definitions name as `module:attribute`: finding it, naming it, telling it apart.

The folder of a workflow file and the current folder are appended to the *end* of `sys.path`, once
a process, so that a file there can hide no other module, and imports inside functions work later.
A module of that folder that is hidden by another of its name is refused, not mistaken for it.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path
from types import CodeType
from typing import Any

from mulligan.errors import InvalidInput
from mulligan.events.payload import digest_of
from mulligan.schemas.problems import did_you_mean

__all__ = ["code_digest", "import_code", "import_path_of", "make_importable"]

MAX_DETAIL = 300
"""Characters quoted from the error of a module that can't be imported."""


def make_importable(folders: Sequence[str]) -> None:
    """Let modules of `folders` be imported, after all that can be imported already."""
    for folder in folders:
        if folder not in sys.path:
            sys.path.append(folder)


def import_code(path: str, folders: Sequence[str] = ()) -> Any:
    """
    The object that `path` (`module:attribute`) names, its module looked for in `folders` too.

    Raises InvalidInput that says what is missing: the module, or the attribute in it.
    """
    module_name, _, attribute = path.partition(":")
    if not module_name or not attribute:
        raise InvalidInput(f"{path!r} is not of the form module:attribute")
    make_importable(folders)
    _refuse_hidden(module_name, folders)
    found = _import(module_name, folders)
    for step in attribute.split("."):
        if not hasattr(found, step):
            hint = did_you_mean(step, [name for name in dir(found) if not name.startswith("_")])
            raise InvalidInput(f"module {module_name!r} has no {attribute!r}{hint}")
        found = getattr(found, step)
    return found


def _import(name: str, folders: Sequence[str]) -> Any:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise InvalidInput(
                f"module {name!r} could not be imported: it needs {error.name!r}"
            ) from error
        where = f" in {', '.join(dict.fromkeys(folders))} or" if folders else ""
        raise InvalidInput(f"no module {error.name!r}{where} among what is installed") from error
    except Exception as error:
        detail = f"{type(error).__name__}: {error}"[:MAX_DETAIL]
        raise InvalidInput(f"module {name!r} could not be imported: {detail}") from error


def _refuse_hidden(module_name: str, folders: Sequence[str]) -> None:
    """Refuse a module of `folders` in whose place another of the same name would be used."""
    top = module_name.partition(".")[0]
    own = PathFinder.find_spec(top, list(folders)) if folders else None
    if own is None or own.origin is None:
        return
    loaded = sys.modules.get(top)
    used = getattr(loaded, "__file__", None) if loaded else _origin(top)
    if used is not None and Path(used).resolve() != Path(own.origin).resolve():
        raise InvalidInput(
            f"module {top!r} of {Path(own.origin).parent} is hidden by {used}; rename it"
        )


def _origin(name: str) -> str | None:
    spec = find_spec(name)
    return None if spec is None else spec.origin


def import_path_of(function: Callable[..., Any]) -> str:
    """
    `module:qualname` of a function, as workers will import it.

    Raises InvalidInput for what a worker could not import: lambdas, functions defined inside
    others, and those of the script that is being run.
    """
    module, name = function.__module__, function.__qualname__
    if "<lambda>" in name:
        raise InvalidInput("a lambda can't be found by workers; define a function in a module")
    if "<locals>" in name:
        raise InvalidInput(
            f"{name!r} is defined inside a function, where workers can't find it; "
            "move it to the top level of its module"
        )
    if module == "__main__":
        raise InvalidInput(
            f"{name!r} belongs to the script being run (__main__), which workers do not import; "
            "move it into a module of its own and import it from there"
        )
    return f"{module}:{name}"


def code_digest(function: Callable[..., Any]) -> str:
    """
    SHA-256 of a function's source, or of its bytecode where there is no source.

    It tells two versions of the function itself apart, not of what it calls. It is that of the
    first look, so that an edit on disk does not change what a running process says it carries.
    """
    return _digest(inspect.unwrap(function))


@functools.lru_cache(maxsize=4_096)
def _digest(function: Callable[..., Any]) -> str:
    try:
        content = inspect.getsource(function).encode()
    except (OSError, TypeError):
        content = _bytecode(function)
    return digest_of(content)


def _bytecode(function: Callable[..., Any]) -> bytes:
    code = getattr(function, "__code__", None)
    if code is None:
        return f"{function.__module__}:{function.__qualname__}".encode()
    return b"\0".join(_pieces(code))


def _pieces(code: CodeType) -> list[bytes]:
    constants = (
        b"\0".join(_pieces(constant)) if isinstance(constant, CodeType) else repr(constant).encode()
        for constant in code.co_consts
    )
    return [code.co_code, repr(code.co_names).encode(), *constants]
