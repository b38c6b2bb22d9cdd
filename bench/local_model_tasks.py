"""
The structured tasks that the local model is given: ten kinds, ten inputs each.

A kind is a schema, what to do, and two examples; without examples a model this small hands in next
to nothing. Half of the tasks show no example all the same: what it says then is the worst.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

TEXT = {"type": "string"}
WHOLE = {"type": "integer"}
NUMBER = {"type": "number"}


@dataclass(frozen=True)
class Kind:
    """One kind of task; `examples` are pairs of an input and the answer to it."""

    name: str
    do: str
    schema: dict[str, Any]
    examples: tuple[tuple[str, str], ...]
    inputs: tuple[str, ...]


@dataclass(frozen=True)
class Task:
    """`id` is a node's id, of its own for each task."""

    id: str
    kind: str
    prompt: str
    schema: dict[str, Any]


def _object(**properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _one_of(*words: str) -> dict[str, Any]:
    return {"type": "string", "enum": list(words)}


def _list(items: dict[str, Any], **more: int) -> dict[str, Any]:
    return {"type": "array", "items": items, **more}


PEOPLE = (
    "Ada Lovelace, 36, London",
    "Email from Grace Hopper (85), New York",
    "Alan Turing is 41, Wilmslow",
    "Marie Curie, aged 66, Paris",
    "Nikola Tesla, 86 years, lives in New York",
    "Jane Goodall (90) Bournemouth",
    "Emmy Noether, 53, Erlangen",
    "Carl Gauss, 77, from Göttingen",
    "Lise Meitner: 89: Cambridge",
    "Niels Bohr, seventy-seven, Copenhagen",
)
REVIEWS = (
    "I love it.",
    "It broke after a day.",
    "It is a chair.",
    "Best purchase this year!",
    "Awful smell.",
    "Arrived on Monday.",
    "Not bad, not good.",
    "My kids adore it",
    "Never again.",
    'The box said "fragile".',
)
SUMS = (
    "2 and 3",
    "10 and 7",
    "1.5 and 2.5",
    "100 and 250",
    "-4 and 9",
    "1,000 and 24",
    "7 and 0",
    "33 and 66",
    "0.1 and 0.2",
    "12 and 12",
)
BASKETS = (
    "eggs, milk and bread",
    "two apples",
    "soap; tea; rice; salt",
    "nothing",
    "a red car and a blue car",
    'pens, "quoted" paper, ink',
    "figs",
    "tea, tea, tea",
    "butter, jam, honey, flour, yeast",
    "cheese/ham",
)
TICKETS = (
    "Server down, call Tim now",
    "Typo on the home page",
    "Add dark mode some day",
    "Login fails for all",
    "Logo is blurry",
    "Data loss in export",
    "Please rename the button",
    "Payments are refused",
    "Slow search",
    "Docs link is dead",
)
ORDERS = (
    "3 pens at 1.50",
    "1 desk at 200 and 2 mats at 10",
    "12 cups at 4",
    "2 lamps at 35.5",
    "5 books at 9.99",
    "1 bed at 499, 2 pillows at 20",
    "40 nails at 0.05",
    "6 chairs at 49",
    "1 rug at 120",
    "8 plates at 6.25",
)
QUESTIONS = (
    "Is ice cold?",
    "Do fish fly?",
    "Is 7 even?",
    "Is Paris in France?",
    "Is fire wet?",
    "Do cats bark?",
    "Is the sun a star?",
    "Is 10 more than 2?",
    "Is milk white?",
    "Are there ten days in a week?",
)
TRIPS = (
    "Rome to Oslo on 2024-05-01",
    "from Bern to Basel, 3 June",
    "Lima - Quito 2025-01-31",
    "Kyiv to Riga tomorrow",
    "Delhi to Agra, Monday",
    "Oslo-Bergen by train on 7/7",
    "Cairo to Luxor 2024-12-24",
    "Nice to Lyon at 9:30",
    "Porto to Faro next week",
    "Boston to Salem, Oct 31",
)
WORDS = ("cold", "big", "happy", "fast", "old", "dark", "rich", "loud", "early", "empty")
ROWS = (
    "a=1 b=2",
    "x=10",
    "left=3 right=4 top=5",
    "k=-1",
    "red=255 green=0 blue=7",
    "one=1 two=2 three=3 four=4",
    "n=1e3",
    "w=0.5 h=0.25",
    "lat=46.9 lon=7.4",
    "p=007",
)

KINDS = (
    Kind(
        "extract",
        "Give the person's name, age and city.",
        _object(name=TEXT, age=WHOLE, city=TEXT),
        (
            ("Carl Sagan, 62, Ithaca", '{"name": "Carl Sagan", "age": 62, "city": "Ithaca"}'),
            ("Ann Lee (30) of Rome", '{"name": "Ann Lee", "age": 30, "city": "Rome"}'),
        ),
        PEOPLE,
    ),
    Kind(
        "classify",
        "Is the review positive, negative or neutral?",
        _object(label=_one_of("positive", "negative", "neutral")),
        (("Great shoes", '{"label": "positive"}'), ("It leaks.", '{"label": "negative"}')),
        REVIEWS,
    ),
    Kind(
        "add",
        "Add the two numbers.",
        _object(sum=NUMBER),
        (("4 and 5", '{"sum": 9}'), ("0.5 and 1", '{"sum": 1.5}')),
        SUMS,
    ),
    Kind(
        "list",
        "List the things to buy.",
        _object(items=_list(TEXT)),
        (("salt and oil", '{"items": ["salt", "oil"]}'), ("a comb", '{"items": ["comb"]}')),
        BASKETS,
    ),
    Kind(
        "triage",
        "Give the ticket a title and a priority: low, medium or high.",
        _object(title=TEXT, priority=_one_of("low", "medium", "high")),
        (
            ("Site is gone!", '{"title": "Site is gone", "priority": "high"}'),
            ("Nicer icons", '{"title": "Nicer icons", "priority": "low"}'),
        ),
        TICKETS,
    ),
    Kind(
        "nested",
        "Give the order's lines: description, quantity and price of each.",
        _object(lines=_list(_object(desc=TEXT, qty=WHOLE, price=NUMBER), minItems=1)),
        (
            ("2 hats at 15", '{"lines": [{"desc": "hats", "qty": 2, "price": 15}]}'),
            (
                "1 pan at 30, 4 forks at 2",
                '{"lines": [{"desc": "pan", "qty": 1, "price": 30}, '
                '{"desc": "forks", "qty": 4, "price": 2}]}',
            ),
        ),
        ORDERS,
    ),
    Kind(
        "truth",
        "Answer with true or false, and why.",
        _object(answer={"type": "boolean"}, why=TEXT),
        (
            ("Is snow white?", '{"answer": true, "why": "Snow reflects all light."}'),
            ("Do dogs meow?", '{"answer": false, "why": "Cats meow."}'),
        ),
        QUESTIONS,
    ),
    Kind(
        "trip",
        "Give the trip's start, end and date.",
        _object(trip=_object(start=TEXT, end=TEXT), date=TEXT),
        (
            ("Ulm to Graz, 4 May", '{"trip": {"start": "Ulm", "end": "Graz"}, "date": "4 May"}'),
            ("Kent-Dover today", '{"trip": {"start": "Kent", "end": "Dover"}, "date": "today"}'),
        ),
        TRIPS,
    ),
    Kind(
        "synonyms",
        "Give exactly three other words for it.",
        _object(words=_list(TEXT, minItems=3, maxItems=3)),
        (
            ("small", '{"words": ["little", "tiny", "minor"]}'),
            ("hot", '{"words": ["warm", "boiling", "burning"]}'),
        ),
        WORDS,
    ),
    Kind(
        "pairs",
        "Give each name with its number.",
        _object(pairs=_list(_object(name=TEXT, number=NUMBER))),
        (
            ("a=5", '{"pairs": [{"name": "a", "number": 5}]}'),
            ("u=1 v=2", '{"pairs": [{"name": "u", "number": 1}, {"name": "v", "number": 2}]}'),
        ),
        ROWS,
    ),
)


def tasks(number: int) -> list[Task]:
    """
    So many of the hundred, of each kind as many as of the others, one kind after the other: the
    model's server keeps what it has read of a prompt, and those of a kind begin alike.
    """
    taken = [(kind, at) for at in range(len(KINDS[0].inputs)) for kind in KINDS][:number]
    return [_task(kind, at) for kind, at in sorted(taken, key=lambda one: KINDS.index(one[0]))]


def _task(kind: Kind, number: int) -> Task:
    with_examples = number % 2 == 0
    prompt = "\n\n".join(_parts(kind, kind.inputs[number], with_examples))
    return Task(f"{kind.name}_{number}", kind.name, prompt, kind.schema)


def _parts(kind: Kind, given: str, with_examples: bool) -> Iterator[str]:
    yield kind.do
    if with_examples:
        for question, answer in kind.examples:
            yield f"Input: {question}\nJSON: {answer}"
    yield f"Input: {given}\nJSON:"
