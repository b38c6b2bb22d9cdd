"""Which Chromium is used: `python -m mulligan.tools.web_use.executable` says so."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from mulligan.errors import EnvironmentUnfit
from mulligan.settings import load_settings

__all__ = ["find_chromium"]

NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chrome")
APPLICATIONS = (
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
)


def find_chromium(executable: Path | None) -> Path:
    """
    The one that is set, or the first that is installed.

    Raises EnvironmentUnfit where there is none, saying what to do.
    """
    if executable is not None:
        if not os.access(executable, os.X_OK):
            raise EnvironmentUnfit(f"MULLIGAN_BROWSER_EXECUTABLE: {executable} can't be executed")
        return executable
    on_path = [found for name in NAMES if (found := shutil.which(name))]
    installed = [
        app for app in APPLICATIONS if sys.platform == "darwin" and os.access(app, os.X_OK)
    ]
    for found in (*on_path, *installed):
        return Path(found)
    raise EnvironmentUnfit(
        "no Chromium or Chrome is installed; install one (Debian: apt-get install chromium), or "
        "name it by MULLIGAN_BROWSER_EXECUTABLE"
    )


def main() -> None:
    """Print the path, or what to do."""
    try:
        print(find_chromium(load_settings().browser_executable))
    except EnvironmentUnfit as error:
        sys.exit(f"mulligan: {error}")


if __name__ == "__main__":
    main()
