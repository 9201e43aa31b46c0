"""Keys of identity providers, from files and over HTTP."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from kqueue.base.errors import SettingError
from kqueue.base.timers import Timers
from kqueue.network.jwks import KEYS_BYTES_MAX, JwksKeys, fetch_text, shown
from kqueue.security.sasl.token_validators import JwksConfig
from kqueue.testing.manual_clock import ManualClock
from kqueue.testing.stepped_jobs import SteppedJobs
from kqueue.tests.security.sasl.token_maker import ec_key, jwks, rsa_key

URL = "https://ann:secret@idp.example/keys?code=secret"


class Provider:
    """What a URL has, and how often it was read."""

    def __init__(self) -> None:
        self.text: str | Exception = jwks(rsa_key())
        self.count = 0
        self.clock = ManualClock()
        self.timers = Timers(self.clock)
        self.jobs = SteppedJobs()
        self.keys = JwksKeys(JwksConfig(URL, 60_000, 100, 1000), self.jobs, self.call_later, self.fetch)

    def call_later(self, ms, run):
        return self.timers.at(self.clock.monotonic_ms() + ms, run)

    def fetch(self, url: str) -> str:
        assert url == URL
        self.count += 1
        if isinstance(self.text, Exception):
            raise self.text
        return self.text

    def pass_ms(self, ms: float) -> None:
        self.jobs.run_all()
        for _ in range(int(ms // 50)):
            self.clock.advance(50)
            self.timers.run_due(self.clock.monotonic_ms())
            self.jobs.run_all()

    @property
    def kids(self) -> list[str]:
        return [key.kid for key in self.keys.key_set.keys]


def test_keys_are_read_in_a_job_and_again():
    provider = Provider()
    assert provider.keys.key_set is None
    provider.pass_ms(0)
    assert provider.kids == ["one"]
    provider.text = jwks(ec_key())
    provider.pass_ms(59_900)
    assert provider.kids == ["one"]
    provider.pass_ms(200)
    assert provider.kids == ["two"]
    assert provider.count == 2


def test_failures_are_repeated_ever_more_slowly_and_the_last_keys_stay(caplog):
    provider = Provider()
    provider.pass_ms(0)
    provider.text = OSError("no route")
    provider.pass_ms(60_000)
    assert provider.count == 2
    provider.pass_ms(100 + 200 + 400 + 800)
    assert provider.count == 6
    provider.pass_ms(10_000)
    assert provider.count == 16, "the longest wait is a second"
    assert provider.kids == ["one"]
    assert "cannot read the keys of the identity provider at https://idp.example/keys: no route" in caplog.text
    assert "secret" not in caplog.text
    provider.text = "{}"
    provider.pass_ms(1000)
    assert provider.kids == ["one"]
    provider.text = jwks(ec_key())
    provider.pass_ms(1000)
    assert provider.kids == ["two"]


def test_a_missing_key_has_them_read_early_but_not_all_the_time():
    provider = Provider()
    provider.pass_ms(0)
    provider.text = jwks(ec_key())
    provider.keys.is_missing()
    provider.pass_ms(50)
    assert provider.kids == ["two"]
    for _ in range(20):
        provider.keys.is_missing()
        provider.pass_ms(50)
    assert provider.count <= 3
    provider.keys.close()
    provider.pass_ms(120_000)
    assert provider.count <= 3


def keys_of(url: str) -> JwksKeys:
    return JwksKeys(JwksConfig(url, 1000, 100, 1000), SteppedJobs(), Timers(ManualClock()).at)


def test_a_file_is_read_at_once_and_a_wrong_one_is_refused(tmp_path):
    file = tmp_path / "my keys.json"
    file.write_text(jwks())
    assert [key.kid for key in keys_of(file.as_uri()).key_set.keys] == ["one", "two"]
    file.write_text("secret")
    for url in (file.as_uri(), (tmp_path / "none").as_uri(), "ftp://host/keys", "keys.json"):
        with pytest.raises(SettingError, match=r"sasl\.oauthbearer\.jwks\.endpoint\.url") as error:
            keys_of(url)
        assert "secret" not in str(error.value)


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(302 if self.path == "/away" else 200)
        if self.path == "/away":
            self.send_header("Location", "file:///etc/hostname")
        self.end_headers()
        self.wfile.write({"/keys": b"good", "/large": b"x" * (KEYS_BYTES_MAX + 1)}.get(self.path, b""))

    def log_message(self, *args):
        pass


def test_http_is_bounded_and_redirects_to_other_schemes_are_not_followed():
    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            url = f"http://127.0.0.1:{server.server_port}"
            assert fetch_text(f"{url}/keys") == "good"
            with pytest.raises(ValueError, match="at most"):
                fetch_text(f"{url}/large")
            with pytest.raises((ValueError, OSError), match=r"(?i)redirect"):
                fetch_text(f"{url}/away")
        finally:
            server.shutdown()
            thread.join()


def test_urls_are_shown_without_secrets():
    assert shown(URL) == "https://idp.example/keys"
    assert shown("http://h:81/k") == "http://h:81/k"
