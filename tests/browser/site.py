"""
A site on loopback that keeps its own record of what it received: the judge of what browsers did.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from email.parser import BytesParser
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

HTML = "text/html; charset=utf-8"
Answer = tuple[int, dict[str, str], str]


class Site:
    """
    Pages to browse, by their paths. `received` has every request that came, (method, path); `saved`
    what was posted to be saved, in order. `rows` are what /list shows, and shows anew as they
    change. `hold` keeps what `/held…` and `/save-held` answer back until it is set.
    """

    def __init__(self) -> None:
        self.received: list[tuple[str, str]] = []
        self.saved: list[dict[str, str]] = []
        self.queries: list[str] = []
        self.rows = ["Anna", "Bert"]
        self.hold = threading.Event()
        site = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self._answer(None)

            def do_POST(self) -> None:
                size = int(self.headers.get("Content-Length", 0))
                self._answer(_form(self.headers.get("Content-Type", ""), self.rfile.read(size)))

            def _answer(self, form: dict[str, str] | None) -> None:
                status, headers, body = site.answer(self.command, self.path, form)
                data = body.encode()
                try:
                    self.send_response(status)
                    for name, value in {
                        "Content-Type": "text/html; charset=utf-8",
                        **headers,
                    }.items():
                        self.send_header(name, value)
                    self.send_header("Content-Length", str(len(data)))
                    self.end_headers()
                    self.wfile.write(data)
                except OSError:
                    pass

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def reset(self) -> None:
        """Forget what came, and answer what is held back."""
        self.hold.set()
        self.hold = threading.Event()
        self.received, self.saved, self.queries = [], [], []
        self.rows = ["Anna", "Bert"]

    def close(self) -> None:
        """Stop answering."""
        self.hold.set()
        self._server.shutdown()
        self._server.server_close()

    def answer(self, method: str, target: str, form: dict[str, str] | None) -> Answer:
        """Record a request, and what it is answered with."""
        parts = urlsplit(target)
        self.received.append((method, parts.path))
        self.queries.append(parts.query)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        page = PAGES.get(parts.path)
        if page is None:
            return 404, {}, _html("Not found", "<h1>Not found</h1>")
        return page(self, {**query, **(form or {})}, form is not None)


def _form(kind: str, body: bytes) -> dict[str, str]:
    if kind.startswith("multipart/"):
        message = BytesParser().parsebytes(b"Content-Type: " + kind.encode() + b"\r\n\r\n" + body)
        return {
            str(part.get_param("name", header="content-disposition")): str(part.get_payload())
            for part in message.get_payload()  # type: ignore[union-attr]
        }
    return {name: values[0] for name, values in parse_qs(body.decode()).items()}


def _html(title: str, body: str) -> str:
    return f"<!doctype html><title>{title}</title><body>{body}</body>"


def _page(title: str, body: str) -> Callable[[Site, dict[str, str], bool], Answer]:
    return lambda site, given, posted: (200, {}, _html(title, body))


def _form_page(action: str, before: str = "") -> Callable[[Site, dict[str, str], bool], Answer]:
    """A form that is posted to `action`."""
    return _page(
        "Form",
        f'{before}<form method=post action="{action}">'
        "<label>Week <input name=week></label><label>Text <textarea name=text></textarea></label>"
        "<label>Password <input type=password name=password></label>"
        "<label>Kind <select name=kind><option value=d>Daily<option value=w>Weekly</select></label>"
        "<button>Save</button></form>",
    )


def _save(site: Site, given: dict[str, str], posted: bool) -> Answer:
    """Kept, and said so."""
    if not posted:
        return 405, {}, _html("No", "")
    site.saved.append(given)
    return 200, {}, _html("Saved", f"<h1>Report saved</h1><p>Week {given.get('week', '')}</p>")


def _save_held(site: Site, given: dict[str, str], posted: bool) -> Answer:
    """Kept at once, and said so when it is let go."""
    site.saved.append(given)
    site.hold.wait(20)
    return 200, {}, _html("Saved", "<h1>Report saved</h1>")


def _save_fleetingly(site: Site, given: dict[str, str], posted: bool) -> Answer:
    """Kept, and said so until there are no rows any more."""
    site.saved.append(given)
    script = (
        "setInterval(async () => { if (!(await (await fetch('/rows')).json()).length) "
        "document.querySelector('h1').remove() }, 50)"
    )
    return 200, {}, _html("Saved", f"<h1>Report saved</h1><script>{script}</script>")


def _save_badly(site: Site, given: dict[str, str], posted: bool) -> Answer:
    """Kept, and an error said."""
    site.saved.append(given)
    return 500, {}, _html("Error", "<h1>Internal error</h1>")


def _save_halfway(site: Site, given: dict[str, str], posted: bool) -> Answer:
    """Kept, and said so, by a page of error."""
    site.saved.append(given)
    return 500, {}, _html("Error", "<h1>Report saved</h1><p>The mail could not be sent</p>")


def _save_refused(site: Site, given: dict[str, str], posted: bool) -> Answer:
    return 422, {}, ""


def _reports_unwell(site: Site, given: dict[str, str], posted: bool) -> Answer:
    """What was saved; the first time that it is asked for, it is unwell."""
    if site.received.count(("GET", "/reports-unwell")) == 1:
        return 503, {}, _html("Unwell", "<h1>Back soon</h1>")
    return _reports(site, given, posted)


HOPEFUL = """
<form onsubmit="save(event)"><label>Week <input name=week></label><button>Save</button></form>
<p id=out></p><script>function save(event) {
  event.preventDefault();
  document.getElementById('out').textContent = 'Report saved';
  fetch('/save-refused', {method: 'POST'});
}</script>"""


def _reports(site: Site, given: dict[str, str], posted: bool) -> Answer:
    """What was saved, by week."""
    rows = "".join(f"<li>Report of {one.get('week', '')}</li>" for one in site.saved)
    return 200, {}, _html("Reports", f"<h1>Reports</h1><ul>{rows}</ul>")


def _held(site: Site, given: dict[str, str], posted: bool) -> Answer:
    site.hold.wait(20)
    return 200, {}, _html("Held", "<h1>At last</h1>")


def _redirect(site: Site, given: dict[str, str], posted: bool) -> Answer:
    return 302, {"Location": given["to"]}, ""


def _unauthorised(site: Site, given: dict[str, str], posted: bool) -> Answer:
    return 401, {}, _html("Login", "<h1>Who are you?</h1>")


def _download(site: Site, given: dict[str, str], posted: bool) -> Answer:
    return 200, {"Content-Disposition": 'attachment; filename="figures.csv"'}, "a,b\n1,2\n"


def _rows(site: Site, given: dict[str, str], posted: bool) -> Answer:
    return 200, {"Content-Type": "application/json"}, json.dumps(site.rows)


def _delete(site: Site, given: dict[str, str], posted: bool) -> Answer:
    site.saved.append({"deleted": given["name"]})
    return 200, {}, ""


def _upload(site: Site, given: dict[str, str], posted: bool) -> Answer:
    site.saved.append(given)
    return 200, {}, _html("Uploaded", "<h1>File received</h1>")


LIST = """
<h1>People</h1><table id=t></table><script>
async function show() {
  const names = await (await fetch('/rows')).json();
  const table = document.getElementById('t');
  while (table.rows.length < names.length) {
    const row = table.insertRow(); row.insertCell();
    row.insertCell().innerHTML = '<button>Delete</button>';
    row.querySelector('button').onclick = () =>
      fetch('/delete?name=' + row.cells[0].textContent);
  }
  names.forEach((name, place) => {
    if (table.rows[place].cells[0].textContent !== name)
      table.rows[place].cells[0].textContent = name;
  });
}
show(); setInterval(show, 50);
</script>"""

PAGES: dict[str, Callable[[Site, dict[str, str], bool], Answer]] = {
    "/": _page("Home", '<h1>Welcome</h1><a href="/form">Form</a> <a href="/held">Slow</a>'),
    "/form": _form_page("/save"),
    "/form-held": _form_page("/save-held"),
    "/form-silent": _form_page("/silent"),
    "/form-error": _form_page("/save-badly"),
    "/form-banner": _form_page("/silent", "<p>Report saved</p>"),
    "/silent": _form_page("/silent"),
    "/form-halfway": _form_page("/save-halfway"),
    "/save-halfway": _save_halfway,
    "/form-hopeful": _page("Form", HOPEFUL),
    "/save-refused": _save_refused,
    "/reports-unwell": _reports_unwell,
    "/form-to-wall": _form_page("/wall"),
    "/form-fleeting": _form_page("/save-fleetingly"),
    "/save": _save,
    "/save-fleetingly": _save_fleetingly,
    "/reports": _reports,
    "/save-held": _save_held,
    "/save-badly": _save_badly,
    "/held": _held,
    "/redirect": _redirect,
    "/wall": lambda site, given, posted: (302, {"Location": "/login"}, ""),
    "/login": _page(
        "Login",
        "<form method=post action=/save><label>Password <input type=password name=password>"
        "</label><button>Log in</button></form>",
    ),
    "/unauthorised": _unauthorised,
    "/captcha": _page("Captcha", "<iframe src=/captcha/frame></iframe>"),
    "/captcha/frame": _page("Robot?", "<p>Are you a robot?</p>"),
    "/iframe": _page("Frames", "<h1>Outside</h1><iframe src=/form title=inner></iframe>"),
    "/iframe-held": _page("Frames", "<h1>Outside</h1><iframe src=/held title=inner></iframe>"),
    "/confirm": _page(
        "Confirm",
        "<form method=post action=/save onsubmit=\"return confirm('Really save?')\">"
        "<button>Save</button></form>",
    ),
    "/alert": _page("Alert", "<script>alert('Hello')</script><h1>Behind it</h1>"),
    "/foreign": _page(
        "Foreign",
        "<iframe id=f></iframe><script>document.getElementById('f').src ="
        "location.href.replace('127.0.0.1', 'localhost').replace('/foreign', '/form')</script>",
    ),
    "/named": _page(
        "Named",
        '<label>Name <input oninput="go.textContent = value"></label>'
        "<button id=go onclick=\"fetch('/at/' + this.textContent)\">?</button>",
    ),
    "/form-get": _page(
        "Form",
        "<form action=/echo><label>Week <input name=q></label><button>Find</button></form>",
    ),
    "/popups": _page(
        "Popups",
        "<script>function go() { for (let n = 5; n--;) open('/'); document.body.append('Opened') }"
        "</script><button onclick=go()>Go</button>",
    ),
    "/popup": _page("Popup", "<button onclick=\"window.open('/form')\">Open</button>"),
    "/download-page": _page("Download", "<a href=/download>Get figures</a>"),
    "/download": _download,
    "/list": _page("List", LIST),
    "/rows": _rows,
    "/delete": _delete,
    "/covered": _page(
        "Covered",
        "<button>Save</button><div style='position:fixed;inset:0;background:#fff'>Cookies?</div>",
    ),
    "/late": _page(
        "Late",
        "<form method=post action=/save><button>Save</button></form>"
        "<div id=over style='position:fixed;inset:0'></div>"
        "<script>fetch('/held').then(() => document.getElementById('over').remove())</script>",
    ),
    "/controls": _page(
        "Controls",
        "<p id=out>nothing</p><button onmouseover=\"say('hovered')\">Hover me</button>"
        "<input aria-label=Keys onkeydown=\"say('key ' + event.key)\">"
        "<div style='height:3000px'></div><p>The end</p>"
        "<script>function say(text) { document.getElementById('out').textContent = text }"
        "addEventListener('scroll', () => say('scrolled'))</script>",
    ),
    "/upload-page": _page(
        "Upload",
        "<form method=post action=/upload enctype=multipart/form-data>"
        "<input type=file name=file aria-label=File><button>Send</button></form>",
    ),
    "/upload": _upload,
    "/echo": lambda site, given, posted: (200, {}, _html("Echo", f"<p>{given.get('q', '')}</p>")),
    "/boastful": _page(
        "T" * 1_000_000 + "end",
        "<h1>Long</h1><script>history.pushState(0, '', '/' + 'u'.repeat(1e6))</script>",
    ),
    "/many": _page("Many", "".join(f"<p>Paragraph {n} {'x' * 200}</p>" for n in range(300))),
}


def redirect_to(url: str) -> str:
    """The path that redirects there."""
    return f"/redirect?to={quote(url, safe='')}"
