"""`mulligan rebuild [PROJECTION]`: fold the stored rows anew."""

from __future__ import annotations

from typing import Literal

import click
import msgspec

from mulligan.client import Client
from mulligan.commands.printing import json_option, show_json
from mulligan.errors import MulliganError
from mulligan.projections.projector import Projector
from mulligan.projections.rows import STORED


class Rebuilt(msgspec.Struct, kw_only=True):
    """The projections whose rows were folded anew, and how many rows each has."""

    kind: Literal["rebuilt"] = "rebuilt"
    rows: dict[str, int]


@click.command()
@click.argument("projection", required=False, type=click.Choice([rows.name for rows in STORED]))
@json_option
def rebuild(projection: str | None, as_json: bool) -> None:
    """
    Fold the rows of PROJECTION, or of all, from the runs themselves, beside the live ones, which
    are read until the new ones take their place. Those of archived runs are folded anew as well.
    """
    kinds = [rows for rows in STORED if projection in (None, rows.name)]
    counts = dict.fromkeys((rows.name for rows in kinds), 0)
    with Client() as client:
        client.archiver.refold()
        for partition in range(client.store.partitions()):
            done = Projector(client.store).rebuild(kinds, partition)
            for rows in kinds:
                if rows not in done:
                    raise MulliganError(
                        f"another rebuild of {rows.name!r} has begun; this one left it to that"
                    )
                counts[rows.name] += len(client.store.rows(rows.name, partition))
    if as_json:
        show_json(Rebuilt(rows=counts))
        return
    for name, count in counts.items():
        click.echo(f"{name}: {count} rows rebuilt", err=True)
