"""Opens pages of the built site in Chromium, counts their requests, and takes pictures of them.

The pages are served on a free port of 127.0.0.1. What a page requests from another host is counted
before the network is asked: Chromium resolves no name but those of this machine.
"""

from __future__ import annotations

import contextlib
import functools
import http.server
import json
import shutil
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

PAGES = ("", "start/testing/", "reference/python/", "reference/settings/", "project/architecture/", "benchmarks/")
"""Between them they have diagrams, pictures, tables, code and signatures."""
WORDS = "retention"
"""What is searched for: the search is a worker with an index of its own."""
WAIT_S = 20


class Visit(NamedTuple):
    """What a page requested.

    Attributes:
        requests: how many.
        elsewhere: addresses of other hosts.
        errors: of the browser's console.
    """

    page: str
    requests: int
    elsewhere: list[str]
    errors: list[str]


def why_no_browser() -> str:
    """Return why pages can't be opened; empty: they can."""
    missing = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    return f"there is no {' and no '.join(missing)}" if missing else ""


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[str]:
    """Serve a folder on a free port; yield its address."""

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()


@contextlib.contextmanager
def chromium() -> Iterator[Any]:
    """Start Chromium without a window; yield its driver. It keeps the log of its requests."""
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--hide-scrollbars",
                     "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"):  # fmt: skip
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    service = webdriver.ChromeService(executable_path=shutil.which("chromedriver"))
    driver = webdriver.Chrome(options=options, service=service)
    try:
        yield driver
    finally:
        driver.quit()


def visit_all(folder: Path, pages: Sequence[str] = PAGES) -> list[Visit]:
    """Open each page, and search on the first; return what each requested."""
    with serving(folder) as address, chromium() as driver:
        visits = []
        for number, page in enumerate(pages):
            driver.get(address + page)
            if number == 0:
                _search(driver)
            visits.append(_visit(page, driver))
        return visits


def _search(driver: Any) -> None:
    """Type words into the search, and wait for a result."""
    from selenium.webdriver.common.action_chains import ActionChains

    ActionChains(driver).send_keys("/").perform()
    time.sleep(0.5)  # the field is shown by a transition
    ActionChains(driver).send_keys(WORDS).perform()
    deadline = time.monotonic() + WAIT_S
    while WORDS not in driver.execute_script(_SEARCH_TEXT).lower():
        if time.monotonic() > deadline:
            raise TimeoutError(f"the search shows nothing for {WORDS!r} after {WAIT_S} s")
        time.sleep(0.1)


_SEARCH_TEXT = """
const texts = [];
const walk = root => root.querySelectorAll("*").forEach(element => {
    if (element.shadowRoot) walk(element.shadowRoot);
    if (element.matches("a[href] mark, mark")) texts.push(element.textContent);
});
walk(document);
return texts.join(" ");
"""


def _visit(page: str, driver: Any) -> Visit:
    requests, elsewhere = 0, []
    for entry in driver.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            url = message["params"]["request"]["url"]
            requests += 1
            if urlsplit(url).scheme in ("http", "https") and urlsplit(url).hostname != "127.0.0.1":
                elsewhere.append(url)
    errors = [entry["message"] for entry in driver.get_log("browser") if entry["level"] == "SEVERE"]
    return Visit(page or "/", requests, elsewhere, errors)


def take_pictures(folder: Path, into: Path, pages: Sequence[str] = PAGES) -> None:
    """Write pictures of pages: in both themes, as wide as a desktop and a phone."""
    into.mkdir(parents=True, exist_ok=True)
    with serving(folder) as address, chromium() as driver:
        for theme in ("light", "dark"):
            features = [{"name": "prefers-color-scheme", "value": theme}]
            driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
            for width, height in ((1440, 1000), (390, 844)):
                metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
                driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
                for page in pages:
                    driver.get(address + page)
                    name = page.strip("/").replace("/", "-")
                    driver.save_screenshot(str(into / f"{name}-{theme}-{width}.png"))
