"""
Every Redis key that mulligan uses, and nothing else that names one.

All keys of a run share the hash tag of its partition, so that they share a slot in Redis Cluster
and one script may touch them together.
"""

from __future__ import annotations

from binascii import crc_hqx

PREFIX = "mulligan"


def partition_of(run: str, partitions: int) -> int:
    """The partition of a run: CRC-16 of its id (XModem, as Redis Cluster) modulo their number."""
    return crc_hqx(run.encode(), 0) % partitions


def partitions_key() -> str:
    """The number of partitions of this server, stored once and fixed."""
    return f"{PREFIX}:partitions"


class Keys:
    """The keys of one partition."""

    def __init__(self, partition: int) -> None:
        self.partition = partition
        self._at = f"{PREFIX}:{{{partition}}}"
        self.feed = f"{self._at}:feed"
        """stream: one reference an append (run, last version, count)"""
        self.due = f"{self._at}:due"
        """sorted set: task → server milliseconds at which someone has to look at it"""
        self.tasks = f"{self._at}:tasks"
        """hash: task → state, token, last operation, inbox, claims"""
        self.runs = f"{self._at}:runs"
        """hash: run → version, state, digest of the input, last operations"""
        self.data_keys = f"{self._at}:datakeys"
        """hash: run → its data key, wrapped by a payload key; outlives the run's stream"""
        self.meta = f"{self._at}:meta"
        """hash: the last entry that was trimmed off the feed; how many runs were archived"""
        self.followers = f"{self._at}:followers"
        """hash: projection → server milliseconds when it was last here, and its checkpoint"""

    def run(self, run: str) -> str:
        """stream: the run's events, ids `<version>-0`"""
        return f"{self._at}:r:{run}"

    def payload(self, run: str, digest: str) -> str:
        """string: a large value of the run"""
        return f"{self._at}:b:{run}:{digest}"

    def sealed(self, task: str) -> str:
        """string, with a time to live: the candidate that a task of the overseer's is to repair"""
        return f"{self._at}:sealed:{task}"

    def snapshot(self, run: str) -> str:
        """hash: a version of the run, and its folded state then"""
        return f"{self._at}:snap:{run}"

    def deltas(self, run: str) -> str:
        """channel of sharded pub/sub, no key: what models say in the run while they say it"""
        return f"{self._at}:d:{run}"

    def rows(self, projection: str) -> str:
        """hash: run → the projection's row"""
        return f"{self._at}:rows:{projection}"

    def checkpoint(self, projection: str) -> str:
        """string: the last feed entry that the projection's rows contain"""
        return f"{self._at}:cp:{projection}"


def workers_keys() -> tuple[str, str]:
    """
    sorted set: worker → server milliseconds until which it counts as alive; hash: worker → its card
    """
    at = f"{PREFIX}:{{workers}}"
    return f"{at}:alive", f"{at}:cards"


def payload_keys_key() -> str:
    """hash: name of a payload key that data keys were wrapped by → its fingerprint"""
    return f"{PREFIX}:{{payloadkeys}}"


def settings_key(workflow: str) -> str:
    """string: what people have changed of a workflow's settings"""
    return f"{PREFIX}:{{settings}}:{workflow}"


class SlotKeys:
    """
    The keys of one lane, or of what a tenant holds. All share a hash tag, so that one call renews
    what a process holds; `lua/slots.lua` makes the same names for the lanes that it finds, and from
    `flows` and `turns` for tenants.
    """

    def __init__(self, lane: str) -> None:
        at = f"{PREFIX}:{{slots}}"
        self.held = f"{at}:held:{lane}"
        """sorted set: token → server milliseconds until which it holds a slot"""
        self.waiting = f"{at}:waiting:{lane}"
        """sorted set: waiter → server milliseconds since when it waits"""
        self.called = f"{at}:called:{lane}"
        """sorted set: waiter that was called → server milliseconds when its place is lost"""
        self.meter = f"{at}:meter:{lane}"
        """hash: when the rate is used up, until when nobody may take a slot, and the limits"""
        self.flows = f"{at}:flows:{lane}"
        """sorted set: tenant with waiters (empty: those without one) → its turn"""
        self.turns = f"{at}:turns:"
        """sorted sets, by `<tenant>:<lane>`: waiter → server milliseconds since when it waits"""
        self.lanes = f"{at}:lanes:{lane}"
        """set, of what a tenant holds: the lanes where it has waiters"""


def lanes_key() -> str:
    """sorted set: lane → server milliseconds at which somebody last looked for a slot"""
    return f"{PREFIX}:{{slots}}:lanes"


def tenants_key() -> str:
    """hash: tenant → its limits, packed; see `events/tenants.py`"""
    return f"{PREFIX}:{{slots}}:tenants"


def queue_key(queue: str, priority: int) -> str:
    """
    list: messages of a Dramatiq queue, one list a priority; not tied to a partition, and all of
    them in one slot, since one blocking read waits on them together
    """
    return f"{PREFIX}:{{q}}:{queue}:{priority}"
