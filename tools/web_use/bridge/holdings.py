"""What a bridge may give to pages: secrets and files, and nothing else of its machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from mulligan.schemas.web_rules import WebRules
from mulligan.tools.web_use.addresses import host_and_port
from mulligan.tools.web_use.bridge.redaction import SHORTEST
from mulligan.tools.web_use.codes import WebUseFailed

__all__ = ["Configuration", "Holdings"]


class Configuration(msgspec.Struct, frozen=True, kw_only=True):
    """
    What a bridge is set up with: where it keeps files, the values of secrets by name and the hosts
    where each may be typed, and the folder that uploads come from.
    """

    folder: Path
    secrets: Mapping[str, str] = {}
    secret_hosts: Mapping[str, tuple[str, ...]] = {}
    uploads: Path | None = None
    reach: Callable[[str], None] = lambda point: None

    def __repr__(self) -> str:
        return f"Configuration({str(self.folder)!r}, secrets={sorted(self.secret_hosts)})"


class Holdings:
    """The secrets and files of a configuration, each only where it may go."""

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration

    def signs_in(self, url: str) -> bool:
        """Whether there is a secret that may be typed at that host."""
        host, port = host_and_port(url)
        return any(
            _rules(hosts).host_allowed(host, port)
            for hosts in self._configuration.secret_hosts.values()
        )

    def secret(self, name: str, url: str) -> str:
        """
        A secret, to be typed into a document of that URL.

        Raises WebUseFailed, `permission_denied`.
        """
        hosts = self._configuration.secret_hosts.get(name)
        value = self._configuration.secrets.get(name)
        if hosts is None or value is None:
            raise WebUseFailed("permission_denied", f"the bridge has no secret {name!r} to type")
        try:
            host, port = host_and_port(url)
        except WebUseFailed:
            raise WebUseFailed("permission_denied", f"{name} may not be typed there") from None
        if not _rules(hosts).host_allowed(host, port):
            raise WebUseFailed("permission_denied", f"{name} may not be typed at {host}")
        if len(value) < SHORTEST:
            raise WebUseFailed(
                "permission_denied", f"{name} is too short to be kept out of what pages show"
            )
        return value

    def file(self, path: str) -> Path:
        """
        A file, to be given to a page.

        Raises WebUseFailed, `permission_denied`.
        """
        root = self._configuration.uploads
        if root is None:
            raise WebUseFailed(
                "permission_denied", "no folder for uploads is set (MULLIGAN_BROWSER_FILES)"
            )
        found = (root / path).resolve()
        if not found.is_relative_to(root.resolve()) or not found.is_file():
            raise WebUseFailed(
                "permission_denied", f"{path[:100]!r} is no file of the folder for uploads"
            )
        return found


def _rules(hosts: tuple[str, ...]) -> WebRules:
    return WebRules(allow=hosts)
