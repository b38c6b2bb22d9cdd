"""The floor under many agents: the same requests at once, by httpx alone."""

from __future__ import annotations

import asyncio
import resource
from time import perf_counter
from typing import Any

import httpx
from serving import serve

TIMEOUT_S = 120


async def _ask(client: httpx.AsyncClient, url: str, body: dict[str, Any]) -> None:
    async with client.stream("POST", url, json=body) as response:
        response.raise_for_status()
        async for _ in response.aiter_bytes():
            pass


async def _ask_all(url: str, body: dict[str, Any], count: int) -> None:
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(timeout=TIMEOUT_S, limits=limits) as client:
        await asyncio.gather(*(_ask(client, url, body) for _ in range(count)))


def ask(url: str, body: dict[str, Any], count: int) -> list[float]:
    """From the first request to the end of the last response; and the processor time of all."""
    began_s, before_s = perf_counter(), _processor_s()
    asyncio.run(_ask_all(url, body, count))
    return [perf_counter() - began_s, _processor_s() - before_s]


def _processor_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    serve({"ask": ask})
