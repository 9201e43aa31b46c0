from __future__ import annotations

import logging
from typing import Any

import pytest

from kqueue.base import events
from kqueue.schema_registry.errors import FORWARDING_FAILED, UNAUTHORIZED, RegistryError
from kqueue.schema_registry.rest.contract import Credentials, ForwardedAnswer, ForwardedRequest, Operation
from kqueue.schema_registry.schema_log import NotTheWriter
from kqueue.tests.schema_registry.rest.api import Api, serving
from kqueue.tests.schema_registry.support import INT, LONG, LoggedRegistry


class Follower:
    """A registry that does not lead. `url`: of the one that does; None: none."""

    def __init__(self, url: str | None) -> None:
        self.url = url

    def is_leader(self) -> bool:
        return False

    def leader_url(self) -> str | None:
        return self.url


class Forwards:
    """Remembers what is forwarded."""

    def __init__(self, error: RegistryError | None = None) -> None:
        self.requests: list[tuple[str, ForwardedRequest]] = []
        self.error = error

    def forward(self, leader_url: str, request: ForwardedRequest) -> ForwardedAnswer:
        self.requests.append((leader_url, request))
        if self.error is not None:
            raise self.error
        return ForwardedAnswer(418, "application/json", b'{"of":"the leader"}')


def test_change_is_forwarded_to_the_leader_as_it_was_sent(registry: LoggedRegistry) -> None:
    forwards = Forwards()
    with serving(registry, leadership=Follower("http://leader"), forwarder=forwards) as api:
        headers = {"Authorization": "Basic x", "Accept": "application/json", "Connection": "close"}
        response = api.post("/subjects/a%2Fb/versions?normalize=true", json={"schema": INT}, headers=headers)
    assert (response.status_code, response.json()) == (418, {"of": "the leader"})
    [(url, request)] = forwards.requests
    assert (url, request.method, request.path) == (
        "http://leader",
        "POST",
        "/subjects/a%2Fb/versions?normalize=true",
    )
    assert request.body == b'{"schema":"\\"int\\""}'
    assert request.headers["authorization"] == "Basic x"
    assert request.headers["x-forward"] == "false"
    assert not {"connection", "host", "content-length"} & set(request.headers)


def test_questions_and_schemas_that_are_there_are_answered_by_every_registry(registry: LoggedRegistry) -> None:
    registry.add("a", INT)
    with serving(registry, leadership=Follower("http://leader"), forwarder=Forwards()) as api:
        assert api.answer("GET", "/subjects") == ["a"]
        assert api.answer("POST", "/subjects/a", {"schema": INT})["id"] == 1
        assert api.answer("POST", "/subjects/a/versions", {"schema": INT}) == {"id": 1}


def test_change_without_a_known_leader_or_forwarded_already_is_refused(registry: LoggedRegistry) -> None:
    with serving(registry, leadership=Follower(None), forwarder=Forwards()) as api:
        assert api.error("POST", "/subjects/a/versions", {"schema": INT}) == 50004
    with serving(registry, leadership=Follower("http://leader")) as api:
        assert api.error("PUT", "/config", {"compatibility": "NONE"}) == 50004
    forwards = Forwards()
    with serving(registry, leadership=Follower("http://leader"), forwarder=forwards) as api:
        assert api.error("DELETE", "/subjects/a", headers={"X-Forward": "false"}) == 50004
    assert forwards.requests == []


def test_registry_that_is_deposed_while_a_schema_waits_forwards_it(
    registry: LoggedRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    leadership, forwards = Follower("http://leader"), Forwards()
    answers = iter([True, False, True])
    monkeypatch.setattr(leadership, "is_leader", lambda: next(answers))

    def append(key: bytes, value: bytes | None) -> int:
        raise NotTheWriter("another one writes")

    monkeypatch.setattr(registry.log, "append", append)
    with serving(registry, leadership=leadership, forwarder=forwards) as api:
        assert api.post("/subjects/a/versions", json={"schema": INT}).status_code == 418
        assert api.error("PUT", "/config", {"compatibility": "NONE"}) == 50004
    assert len(forwards.requests) == 1


def test_leader_that_does_not_answer_is_an_error(registry: LoggedRegistry) -> None:
    forwards = Forwards(RegistryError(FORWARDING_FAILED, leader="http://leader", reason="it is off"))
    with serving(registry, leadership=Follower("http://leader"), forwarder=forwards) as api:
        assert api.error("DELETE", "/subjects/a") == 50003


class Users:
    """Takes the header Authorization for the name of the user."""

    challenge = 'Basic realm="registry"'

    def authenticate(self, credentials: Credentials) -> str:
        assert credentials.client is not None
        assert credentials.scope["type"] == "http"
        if credentials.authorization is None:
            raise RegistryError(UNAUTHORIZED, reason="Send a user and a password.")
        return credentials.authorization


class Rights:
    """Users may do what their names say: `read-a`."""

    def is_allowed(self, user: str | None, operation: Operation, subject: str | None) -> bool:
        return user == f"{operation.value}-{subject}"


def test_request_without_credentials_is_refused_before_anything_is_read_of_it(registry: LoggedRegistry) -> None:
    with serving(registry, authenticator=Users()) as api:
        response = api.post("/subjects/a/versions", content=b"no JSON")
        assert (response.status_code, response.json()["error_code"]) == (401, 401)
        assert response.headers["www-authenticate"] == Users.challenge


def test_users_see_and_change_what_they_may(registry: LoggedRegistry) -> None:
    registry.add("a", INT)
    registry.add("b", INT)
    registry.add("b", LONG)
    with serving(registry, authenticator=Users(), authorizer=Rights()) as api:
        api.headers["Authorization"] = "read-b"
        assert api.answer("GET", "/subjects") == ["b"]
        assert [one["subject"] for one in api.answer("GET", "/schemas")] == ["b", "b"]
        assert api.answer("GET", "/schemas/ids/1") == {"schema": INT}
        assert api.answer("GET", "/schemas/ids/1/subjects") == ["b"]
        assert api.error("GET", "/subjects/a/versions") == 40301
        assert api.error("POST", "/subjects/b/versions", {"schema": INT}) == 40301
        assert api.error("GET", "/config/b") == 40301
        api.headers["Authorization"] = "read-a"
        assert api.error("GET", "/schemas/ids/2") == 40403
        api.headers["Authorization"] = "write-a"
        assert api.answer("POST", "/subjects/a/versions", {"schema": LONG}) == {"id": 2}
        assert api.error("DELETE", "/subjects/a") == 40301
        assert api.error("PUT", "/mode", {"mode": "READONLY"}) == 40301


def test_unexpected_error_is_answered_with_500_and_logged(
    registry: LoggedRegistry, api: Api, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any) -> Any:
        raise ZeroDivisionError("secret")

    monkeypatch.setattr(registry.catalog, "contexts", fail)
    with caplog.at_level(logging.ERROR):
        response = api.get("/contexts")
    assert (response.status_code, response.json()["error_code"]) == (500, 500)
    assert "secret" not in response.text
    assert [getattr(line, "event", None) for line in caplog.records] == [events.REGISTRY_INTERNAL_ERROR.name]


def test_types_of_requests_and_answers_are_negotiated(api: Api) -> None:
    response = api.put("/config", content=b'{"compatibility":"NONE"}', headers={"Accept": "application/json"})
    assert (response.status_code, response.headers["content-type"]) == (200, "application/json")
    assert api.error("GET", "/config", headers={"Accept": "text/html"}) == 406
    assert api.error("PUT", "/config", {}, headers={"Content-Type": "text/plain"}) == 415
    assert api.request("GET", "/config", content=b"no JSON", headers={"Content-Type": "text/plain"}).status_code == 200
