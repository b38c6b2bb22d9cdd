"""The page's files."""

from __future__ import annotations

import re

import pytest

from mulligan.web.page_files import FOLDER
from tests.http.conftest import Api

pytestmark = pytest.mark.server


def test_every_module_is_fetched_at_once() -> None:
    """One that only another one names is found late, at the cost of a round trip."""
    named = re.findall(r'"/page/([a-z_]+\.js)"', (FOLDER / "index.html").read_text())
    assert sorted(named) == sorted(path.name for path in FOLDER.glob("*.js"))


def test_no_text_becomes_markup_and_no_script_is_made_of_text() -> None:
    told = {path.name: path.read_text() for path in FOLDER.glob("*.js")}
    forbidden = re.compile(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|Function\("
    )
    assert [name for name, text in told.items() if forbidden.search(text)] == []


def test_files_are_kept_by_browsers_and_asked_about(api: Api) -> None:
    first = api.http.get("/")
    assert first.headers["content-type"] == "text/html; charset=utf-8"
    assert first.headers["content-security-policy"].startswith("default-src 'self'")
    assert first.headers["cache-control"] == "no-cache"
    again = api.http.get("/", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    script = api.http.get("/page/main.js")
    assert script.headers["content-type"] == "text/javascript; charset=utf-8"


@pytest.mark.parametrize(
    "name", ["nothing.js", "..%2findex.html", "%2e%2e%2fapp.py", "%00.js", "page_files.py"]
)
def test_nothing_else_is_served(api: Api, name: str) -> None:
    assert api.http.get(f"/page/{name}").status_code == 404
