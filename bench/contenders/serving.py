"""
What a contender is: a process that makes itself ready, then does a measured thing each time it is
told to. It runs in the peers' environment, so it imports nothing of ours.

    in:   the name of a measurement and its arguments, as one line of JSON
    out:  its figures, as one line of JSON
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

Measure = Callable[..., list[float]]
"""Takes the arguments of a measurement; gives seconds, of each thing that was measured."""


def serve(measures: Mapping[str, Measure]) -> None:
    """Answer until the input ends. What a library prints goes to stderr, not among figures."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    print("ready", file=answers, flush=True)
    for line in sys.stdin:
        asked: dict[str, Any] = json.loads(line)
        figures = measures[asked.pop("measure")](**asked)
        print(json.dumps(figures), file=answers, flush=True)
