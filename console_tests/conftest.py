"""A cluster of three brokers, a console before it, and a browser before the console."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

from console_tests.browser import Browser
from console_tests.cluster_contents import fill
from kqueue import Cluster
from kqueue.console.options import ConsoleOptions, client_options
from kqueue.console.server import ConsoleServer

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if CHROMIUM is None or DRIVER is None:
        reason = "needs chromium and chromedriver on the path"
        for item in items:
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """Three brokers that hold the contents of `cluster_contents`; user ANONYMOUS may all."""
    settings = {"authorizer.class.name": "standard", "super.users": "User:ANONYMOUS"}
    with Cluster(brokers=3, settings=settings) as cluster:
        fill(cluster)
        yield cluster


@pytest.fixture(scope="session")
def console(cluster: Cluster) -> Iterator[str]:
    """The address of a console that allows changes, without a slash at its end."""
    options = ConsoleOptions(
        client=client_options(cluster.bootstrap, timeout_ms=4_000),
        port=0,
        allow_changes=True,
        history_interval_ms=5_000,
    )
    server = ConsoleServer(options)
    thread = threading.Thread(target=server.run)
    thread.start()
    yield server.url.rstrip("/")
    server.stop()
    thread.join(60)


@pytest.fixture(scope="session")
def driver() -> Iterator[webdriver.Chrome]:
    options = webdriver.ChromeOptions()
    options.binary_location = str(CHROMIUM)
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options, Service(DRIVER))
    yield driver
    driver.quit()


@pytest.fixture
def browser(driver: webdriver.Chrome, console: str) -> Browser:
    browser = Browser(driver, console)
    browser.prefer("light")
    browser.resize(1280, 900)
    driver.delete_all_cookies()
    return browser
