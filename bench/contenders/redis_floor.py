"""The floor under our steps: one bare XADD for each, over one connection."""

from __future__ import annotations

import sys
from time import perf_counter

from serving import serve

from mulligan.wire import Wire
from mulligan.wire_address import address_of

EVENT = b'{"id":"aaaaaaaaaaaaaaaa.0","type":"NodeCompleted","node":"n1","data":{"output":{"v":1}}}'


def main() -> None:
    """`redis_floor.py URL`"""
    address = address_of(sys.argv[1])
    assert address is not None
    wire = Wire(address, connect_timeout_s=5, answer_timeout_s=30)

    def chain(steps: int, chains: int) -> list[float]:
        began_s = perf_counter()
        for number in range(chains):
            for _ in range(steps):
                wire.call("XADD", f"floor:{number}", "*", "d", EVENT)
        return [perf_counter() - began_s]

    serve({"chain": chain})


if __name__ == "__main__":
    main()
