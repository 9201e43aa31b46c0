from __future__ import annotations

import pytest

from kqueue.console.access.hosts import AllowedHosts, host_name
from kqueue.tests.console.browser import Browser, Visit


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:8080", "127.0.0.1:9", "[::1]:8080", "192.0.2.1", "localhost."]
)
def test_the_consoles_own_names_and_addresses_are_accepted(host: str) -> None:
    assert AllowedHosts(None, names=["localhost"]).accepts(host)


@pytest.mark.parametrize(
    "host", ["", "evil.example", "localhost.evil.example", "localhost@evil", "x" * 300, "[", ":80"]
)
def test_other_names_are_refused(host: str) -> None:
    assert not AllowedHosts(None, names=["localhost"]).accepts(host)


def test_a_name_that_a_site_gave_this_machine_reads_nothing(browser: Browser) -> None:
    response = browser.get("/", headers={"host": "evil.example:8080"})
    assert response.status_code == 421
    assert "--allowed-host" in response.text
    assert "set-cookie" not in response.headers


def test_a_name_can_be_allowed(visit: Visit) -> None:
    browser = visit("127.0.0.1:1", token="0123456789abcdef", allowed_hosts=("Console.Example",))
    assert browser.get("/login", headers={"host": "console.example"}).status_code == 200


def test_the_port_is_no_part_of_the_name() -> None:
    assert host_name("[2001:DB8::1]:80") == "2001:db8::1"
    assert host_name("a:b") == "a:b"
