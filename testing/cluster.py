"""
A throwaway Redis Cluster of three primaries on loopback ports.
"""

from __future__ import annotations

import socket
import time
from types import TracebackType
from typing import Any

from mulligan.errors import EnvironmentUnfit
from mulligan.testing.server import ValkeyServer

NODES = 3
SLOTS = 16_384
FORM_TIMEOUT_S = 30.0


class ValkeyCluster:
    """
    Three servers that share the slots, without replicas.

        with ValkeyCluster() as cluster:
            store = RedisEventStore(cluster.url, partitions=6)

    Raises:
        EnvironmentUnfit: a server does not start, or they do not find together.
    """

    def __init__(self) -> None:
        self._ports = _free_ports(2 * NODES)
        self.servers = [
            ValkeyServer(
                port=str(self._ports[number]),
                bind="127.0.0.1",
                cluster_enabled="yes",
                cluster_port=str(self._ports[NODES + number]),
                cluster_node_timeout="5000",
            )
            for number in range(NODES)
        ]

    @property
    def url(self) -> str:
        """The cluster's address, for `RedisEventStore` and `MULLIGAN_REDIS_URL`."""
        return f"redis+cluster://127.0.0.1:{self._ports[0]}"

    def start(self) -> None:
        """Start the servers, share out the slots, and return once all of them serve."""
        for server in self.servers:
            server.start()
        for number in range(NODES):
            first, after = number * SLOTS // NODES, (number + 1) * SLOTS // NODES
            self._ask(number, "ADDSLOTSRANGE", first, after - 1)
        for number in range(1, NODES):
            self._ask(0, "MEET", "127.0.0.1", self._ports[number], self._ports[NODES + number])
        until_s = time.monotonic() + FORM_TIMEOUT_S
        while not all(self._serves(number) for number in range(NODES)):
            if time.monotonic() > until_s:
                raise EnvironmentUnfit("the cluster's servers did not find together")
            time.sleep(0.02)

    def flush(self) -> None:
        """Empty all servers."""
        for server in self.servers:
            with server.client() as client:
                client.flushall()

    def keys_by_server(self) -> list[int]:
        """How many keys each server holds."""
        counts = []
        for server in self.servers:
            with server.client() as client:
                counts.append(int(client.dbsize()))
        return counts

    def close(self) -> None:
        """End all servers and delete their files."""
        for server in self.servers:
            server.close()

    def __enter__(self) -> ValkeyCluster:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _serves(self, number: int) -> bool:
        info: Any = self._ask(number, "INFO")
        text = info if isinstance(info, str) else str(info)
        return "'cluster_state': 'ok'" in text and f"'cluster_known_nodes': '{NODES}'" in text

    def _ask(self, number: int, *command: object) -> Any:
        with self.servers[number].client() as client:
            return client.execute_command("CLUSTER " + str(command[0]), *command[1:])


def _free_ports(count: int) -> list[int]:
    """Ports that were free a moment ago."""
    held = [socket.socket() for _ in range(count)]
    for one in held:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return ports
