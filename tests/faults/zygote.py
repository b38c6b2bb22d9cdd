"""
Makes worker processes in milliseconds: it has imported everything, and forks.

A line of JSON on standard input is a worker: its environment, the file of its log and how many
threads work. A line with its process id comes back. What it has made ends with it.
"""

from __future__ import annotations

import json
import os
import signal
import sys

import msgspec

import mulligan.actors.assemble  # noqa: F401 - so that those who are forked need not
from mulligan.actors import process

FACTORY = "mulligan.actors.assemble:assemble"


def become_a_worker(environment: dict[str, str], log: str, threads: int) -> None:
    """Go on as a worker process; returns never."""
    os.environ.update(environment)
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(output, sys.stderr.fileno())
    os.dup2(output, sys.stdout.fileno())
    orders = process.Orders(factory=FACTORY, threads=threads, drain_s=1.0)
    sys.argv = ["worker", msgspec.json.encode(orders).decode()]
    process.main()


def main() -> None:
    """Fork until standard input ends."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the dead are gone at once
    ending, kept = os.pipe()  # the read end is the workers' standard input, `kept` stays open here
    while line := sys.stdin.readline():
        wanted = json.loads(line)
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.close(kept)
            os.dup2(ending, sys.stdin.fileno())
            become_a_worker(wanted["environment"], wanted["log"], wanted["threads"])
        print(pid, flush=True)


if __name__ == "__main__":
    main()
