from typing import Any


class Lease:
    lost: bool = False

    def may_start(self) -> bool:
        return True

    def on_stop(self, f: Any) -> None: ...
    def __enter__(self) -> "Lease":
        return self

    def __exit__(self, *a: Any) -> None: ...


class LeaseKeeper:
    def hold(self, held: Any, inbox: int, phase: str, sent_s: float) -> Lease:
        return Lease()
