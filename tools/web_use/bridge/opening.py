"""Going to a URL, and what can come of it."""

from __future__ import annotations

from urllib.parse import urlsplit

from playwright.async_api import Error as PlaywrightError
from playwright.async_api import Response
from playwright.async_api import TimeoutError as PlaywrightTimeout

from mulligan.tools.web_use.bridge.proxy import FAILED, MARK, EgressProxy
from mulligan.tools.web_use.bridge.tab import Tab, bounded
from mulligan.tools.web_use.codes import WebUseFailed

__all__ = ["go"]

CAPTCHAS = ("/recaptcha/", "hcaptcha.com/", "challenges.cloudflare.com/", "/captcha/")
FRAMED = "() => [...document.querySelectorAll('iframe')].map(frame => frame.src)"
UNSAFE = ("ERR_UNSAFE_REDIRECT", "ERR_UNKNOWN_URL_SCHEME", "ERR_INVALID_URL", "ERR_UNSAFE_PORT")


async def go(tab: Tab, url: str, proxy: EgressProxy, within_s: float, *, signs_in: bool) -> None:
    """
    Go there, until the document has been read. `signs_in`: there is a secret for that host, so a
    login is no wall.

    Raises WebUseFailed: `timeout`, `permission_denied` (it led where the rules do not),
    `unsupported_url` (it led out of the web), `needs_user`, `page_target_unavailable`, or
    `backend_action_failed`.
    """
    try:
        response = await tab.unless_dialog(
            tab.page.goto(url, wait_until="domcontentloaded", timeout=within_s * 1_000)
        )
    except PlaywrightTimeout:
        raise WebUseFailed("timeout", "the site did not answer in time") from None
    except PlaywrightError as error:
        if "Download is starting" in str(error) or tab.status in (204, 205):
            return
        raise _failure(str(error), tab, proxy) from None
    _refuse_marked(response, proxy)
    await _refuse_walls(tab, signs_in)


def _failure(said: str, tab: Tab, proxy: EgressProxy) -> WebUseFailed:
    if tab.gone:
        return WebUseFailed("page_target_unavailable", "the page was closed meanwhile")
    if any(sign in said for sign in UNSAFE):
        return WebUseFailed("unsupported_url", "it leads to what is no http(s) URL")
    if "ERR_TUNNEL_CONNECTION_FAILED" in said and _host(tab.heading) in proxy.refused:
        return _refused(tab.heading)
    reason = next((word for word in said.split() if word.startswith("net::")), "")
    return WebUseFailed("backend_action_failed", f"the page could not be loaded {reason}".strip())


def _refuse_marked(response: Response | None, proxy: EgressProxy) -> None:
    """The proxy's own answers: the site was not asked."""
    if response is None:  # a dialog holds it up
        return
    if MARK in response.headers and _host(response.url) in proxy.refused:
        raise _refused(response.url)
    if FAILED in response.headers and response.status == 502:
        raise WebUseFailed("backend_action_failed", "the host could not be reached")


def _host(url: str) -> str:
    return urlsplit(url).hostname or ""


def _refused(url: str) -> WebUseFailed:
    return WebUseFailed(
        "permission_denied",
        f"it leads to {_host(url)[:200]}, which is not allowed here, or to a network that is not",
    )


async def _refuse_walls(tab: Tab, signs_in: bool) -> None:
    """What only a person gets over."""
    if tab.status == 401:
        raise WebUseFailed("needs_user", "the site asks for a login; a person has to log in")
    framed = await bounded(tab.page.evaluate(FRAMED), 2.0) or []
    if any(sign in url for url in framed for sign in CAPTCHAS):
        raise WebUseFailed("needs_user", "the site shows a captcha; a person has to solve it")
    if tab.redirected and not signs_in:
        look = await tab.look(tree=False)
        if look.passwords:
            raise WebUseFailed("needs_user", "it leads to a login; a person has to log in")
