"""
Conditions of `when:`, such as `check.ok and len(collect.items) > 2`.

A small language inside simpleeval's: names of earlier outputs and `input`, keys by dot or bracket,
literals (`true`, `false` and `null` too), comparisons, `and or not`, `in`, `+ - * / // %`, and
`len`. There is no power, no call but `len`, no method, no comprehension; `*`, `/` and `%` take
numbers only, since text times a number or text % a value can fill the memory. So the cost of an
evaluation is bounded by the size of the expression times that of the values.

A name's `-` is written `_`: the node `fact-check` is `fact_check` here. A key that an object does
not have is null, so that optional fields can be asked about; so is everything below null.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

from simpleeval import InvalidExpression, SimpleEval

from mulligan.errors import ExpressionFailed
from mulligan.schemas.references import Reference

__all__ = ["condition_problem", "evaluate", "python_name", "references_of"]

MAX_CHARACTERS = 1_000
MAX_PARTS = 200
"""Names, literals and operations; ten times what a condition that people can read has."""
_LITERALS = {"true": True, "false": False, "null": None, "True": True, "False": False, "None": None}
_SAYS = {
    ast.Pow: "powers (**)",
    ast.Lambda: "lambda",
    ast.ListComp: "comprehensions",
    ast.SetComp: "comprehensions",
    ast.DictComp: "comprehensions",
    ast.GeneratorExp: "comprehensions",
    ast.JoinedStr: "f-strings",
    ast.NamedExpr: "assignments",
    ast.BitAnd: "& (write `and`)",
    ast.BitOr: "| (write `or`)",
    ast.Slice: "slices",
}


def python_name(name: str) -> str:
    """How a node's id is spelled in a condition and as a function's parameter."""
    return name.replace("-", "_")


def condition_problem(expression: str) -> str | None:
    """Why `expression` is not a condition, or None if it is one. Nothing is evaluated."""
    if len(expression) > MAX_CHARACTERS:
        return (
            f"a condition has at most {MAX_CHARACTERS:,} characters; this has {len(expression):,}"
        )
    try:
        tree = _parse(expression)
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        return f"not an expression: {getattr(error, 'msg', None) or 'it is nested too deeply'}"
    parts = list(ast.walk(tree))
    size = sum(isinstance(part, ast.expr) for part in parts)
    if size > MAX_PARTS:
        return f"a condition has at most {MAX_PARTS} parts; this has {size}"
    return next(filter(None, map(_part_problem, parts)), None)


def references_of(expression: str) -> list[Reference]:
    """What a valid condition refers to: each name with the keys that follow it by dots."""
    tree = _parse(expression)
    inner = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    chains = (_chain(node) for node in ast.walk(tree) if id(node) not in inner | called)
    return [chain for chain in chains if chain is not None]


def evaluate(expression: str, values: Mapping[str, Any]) -> bool:
    """
    Whether the condition holds for `values`, by name: outputs and `input`.

    Empty text, 0, empty lists and objects, and null count as false. Pure.

    Raises ExpressionFailed where the values do not fit, such as text compared with a number.
    """
    problem = condition_problem(expression)
    if problem is not None:
        raise ExpressionFailed(expression, problem)
    names = {python_name(name): value for name, value in values.items()} | _LITERALS
    try:
        return bool(_evaluator(names).eval(expression, _parse(expression)))
    except InvalidExpression as error:
        raise ExpressionFailed(expression, "a name is not known here") from error
    except (TypeError, ValueError, ArithmeticError, RecursionError) as error:
        raise ExpressionFailed(expression, str(error)[:200]) from error


def _parse(expression: str) -> ast.expr:
    return ast.parse(expression.replace("\n", " ").strip(), mode="eval").body


def _chain(node: ast.AST) -> Reference | None:
    steps: list[str | int] = []
    while isinstance(node, ast.Attribute):
        steps.insert(0, node.attr)
        node = node.value
    if not isinstance(node, ast.Name) or node.id in _LITERALS:
        return None
    return Reference(node.id, tuple(steps), ".".join([node.id, *map(str, steps)]))


def _part_problem(part: ast.AST) -> str | None:
    match part:
        case ast.Call(func=ast.Name(id="len"), args=[argument], keywords=[]):
            return "len takes one value" if isinstance(argument, ast.Starred) else None
        case ast.Call():
            return "only len(…) can be called here"
        case ast.Attribute(attr=attr) if attr.startswith("__"):
            return f"{attr!r} is not a key that a condition may ask for"
        case ast.Constant(value=value) if not isinstance(value, str | int | float | None):
            return f"{type(value).__name__} literals are not part of this language"
    if type(part) in _PARTS or type(part) in _OPERATORS:
        return None
    return f"{_SAYS.get(type(part), type(part).__name__)} can't be used in a condition"


def _numbers(operation: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """`operation` for numbers only: on text, `*` and `%` could make results of any size."""

    def checked(left: Any, right: Any) -> Any:
        if isinstance(left, int | float) and isinstance(right, int | float):
            return operation(left, right)
        raise TypeError(f"{operation.__name__} needs numbers")

    return checked


def _contains(needle: Any, haystack: Any) -> bool:
    return haystack is not None and needle in haystack


_PARTS = {
    *(ast.BoolOp, ast.And, ast.Or, ast.UnaryOp, ast.BinOp, ast.Compare, ast.IfExp),
    *(ast.Name, ast.Load, ast.Constant, ast.Attribute, ast.Subscript, ast.List, ast.Tuple),
}
_OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: _numbers(operator.sub),
    ast.Mult: _numbers(operator.mul),
    ast.Div: _numbers(operator.truediv),
    ast.FloorDiv: _numbers(operator.floordiv),
    ast.Mod: _numbers(operator.mod),
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.eq,
    ast.IsNot: operator.ne,
    ast.In: _contains,
    ast.NotIn: lambda needle, haystack: not _contains(needle, haystack),
    ast.Not: operator.not_,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}


def _evaluator(names: Mapping[str, Any]) -> Any:
    """simpleeval with keys in the place of attributes: no value's methods can be reached."""
    unannotated: Any = SimpleEval
    engine = unannotated(operators=dict(_OPERATORS), functions={"len": len}, names=names)
    value = engine._eval
    engine.nodes = {
        **{kind: handler for kind, handler in engine.nodes.items() if kind in _PARTS | {ast.Call}},
        ast.Attribute: lambda node: _key_of(value(node.value), node.attr),
        ast.Subscript: lambda node: _item_of(value(node.value), value(node.slice)),
        ast.List: lambda node: [value(element) for element in node.elts],
        ast.Tuple: lambda node: [value(element) for element in node.elts],
    }
    return engine


def _item_of(holder: Any, key: Any) -> Any:
    if isinstance(holder, list | str) and isinstance(key, int):
        return holder[key] if -len(holder) <= key < len(holder) else None
    return _key_of(holder, key)


def _key_of(holder: Any, key: Any) -> Any:
    if holder is None:
        return None
    if isinstance(holder, dict) and isinstance(key, str):
        return holder.get(key)
    raise TypeError(f"there is no {key!r} in {'a list' if isinstance(holder, list) else 'a value'}")
