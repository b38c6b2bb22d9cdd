"""
A producer for cron: one run a day, however often it is started.

    5 0 * * *  cd /srv/greetings && python cron_producer.py

The run's id is made of the day, so a second start on that day, after a crash or by hand, is the
same run. Ending with another code than 0 makes cron tell somebody.
"""

from __future__ import annotations

import sys
from datetime import UTC, date, datetime
from pathlib import Path

from mulligan import Client, MulliganError

WORKFLOW = str(Path(__file__).parent / "greeting.yaml")


def enqueue_for(client: Client, day: date) -> str:
    """Ask for the run of `day` and return its id."""
    return client.enqueue(
        WORKFLOW, {"name": f"{day:%A}"}, run_id=f"greeting-{day:%Y-%m-%d}", tags=("daily",)
    )


def main() -> int:
    """Ask for today's run; the exit code."""
    try:
        with Client() as client:
            print(enqueue_for(client, datetime.now(UTC).date()))
    except MulliganError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
