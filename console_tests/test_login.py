"""Logging in to the console, by a token and as a user of the brokers."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.common.keys import Keys

from console_tests.browser import Browser
from kqueue import Broker, Cluster
from kqueue.console.options import ConsoleOptions, client_options
from kqueue.console.server import ConsoleServer

TOKEN = "a-token-of-the-console"
PASSWORDS = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_ann="a-secret" user_bob="b-secret";'


@contextlib.contextmanager
def serving(bootstrap: str, **options: Any) -> Iterator[str]:
    """Yield the address of a console with these options."""
    server = ConsoleServer(ConsoleOptions(client=client_options(bootstrap), port=0, **options))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        yield server.url.rstrip("/")
    finally:
        server.stop()
        thread.join(60)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_token_gets_in_by_keyboard_and_leads_to_the_page(
    driver: webdriver.Chrome, cluster: Cluster, theme: str
) -> None:
    with serving(cluster.bootstrap, token=TOKEN) as address:
        browser = Browser(driver, address)
        browser.prefer(theme)
        browser.open("/topics?q=orders")
        assert browser.path.startswith("/login")
        assert browser.axe() == []
        browser.press(*"wrong", Keys.ENTER)
        browser.wait_for("That is not the console's token.")
        assert browser.axe() == []
        browser.press(*TOKEN, Keys.ENTER)
        browser.wait_for("1–1 of 1 topic")
        assert browser.path == "/topics?q=orders"
        browser.tab_to("Log out")
        browser.press(Keys.ENTER)
        browser.wait_for_element("#f-token")
        browser.open("/topics")
        assert browser.path.startswith("/login")


def test_users_see_what_the_brokers_let_them_see(driver: webdriver.Chrome) -> None:
    settings = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "PLAIN",
        "authorizer.class.name": "standard",
        "super.users": "User:ann",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": PASSWORDS,
    }
    with Broker(settings=settings) as broker, serving(broker.bootstrap, login="PLAIN") as address:
        broker.create_topic("orders")
        browser = Browser(driver, address)
        for user, password, sees in (("ann", "a-secret", True), ("bob", "b-secret", False)):
            driver.delete_all_cookies()
            browser.open("/login")
            assert browser.axe() == []
            browser.press(*user, Keys.TAB, *password, Keys.ENTER)
            browser.wait_for(user)
            browser.open("/topics")
            assert ("orders" in browser.text) is sees
            browser.open("/acls")
            assert ("Not allowed" in browser.text) is not sees
