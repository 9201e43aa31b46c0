"""Tests of `broker.access.delegation_tokens`: what is stored, found again, shared, and refused."""

from __future__ import annotations

import base64
import logging
from pathlib import Path

import pytest

from kqueue.base.errors import PolicyViolation, StorageFailed
from kqueue.broker.access import delegation_tokens
from kqueue.broker.access.delegation_tokens import PREFIX, CreatedToken
from kqueue.metadata.sqlite import SqliteStore
from kqueue.security.errors import TokenExpired, TokenNotFound, TokenOwnerMismatch, TokensDisabled
from kqueue.security.principals import Principal
from kqueue.security.scram_credentials import SCRAM_MECHANISMS, make_credential
from kqueue.testing.simulation import Simulation
from kqueue.tests.broker.failing_store import FailingStore
from kqueue.tests.broker.members import Members

ANN, BOB = Principal("User", "ann"), Principal("User", "bob")
DAY_MS = 86_400_000
HOUR_MS = 3_600_000
KEY = {"delegation.token.secret.key": "brokers-key"}


def create(sim: Simulation, owner: Principal = ANN, lifetime_ms: int = -1) -> CreatedToken:
    return sim.result(sim.broker.security.tokens.create(owner, ANN, [BOB], lifetime_ms))


def ids(sim: Simulation) -> set[str]:
    return {token.id for token in sim.broker.security.tokens.all()}


def test_a_token_authenticates_its_owner_until_it_ends() -> None:
    sim = Simulation(KEY)
    token, mac = create(sim, BOB)
    now_ms = sim.clock.wall_ms()
    assert (token.issue_ms, token.expiry_ms, token.max_ms) == (now_ms, now_ms + DAY_MS, now_ms + 7 * DAY_MS)
    find = sim.broker.security.find_scram_account
    account = find("SCRAM-SHA-256", token.id, True)
    assert account is not None
    assert (account.principal, account.principal.by_token, account.expires_ms) == (BOB, True, token.expiry_ms)
    password = base64.b64encode(mac).decode()
    assert account.credential == make_credential(
        SCRAM_MECHANISMS["SCRAM-SHA-256"], password, 4096, account.credential.salt
    )
    assert find("SCRAM-SHA-512", token.id, True) is not None
    assert find("SCRAM-SHA-256", token.id, False) is None  # a token is no user
    assert find("SCRAM-SHA-256", "other", True) is None
    sim.advance(DAY_MS)
    assert find("SCRAM-SHA-256", token.id, True) is not None
    sim.advance(1)
    assert find("SCRAM-SHA-256", token.id, True) is None
    assert ids(sim) == set()


def test_a_token_is_renewed_by_its_owner_and_its_renewers_only() -> None:
    sim = Simulation(
        {**KEY, "delegation.token.expiry.time.ms": HOUR_MS, "delegation.token.max.lifetime.ms": 7 * HOUR_MS}
    )
    token, mac = create(sim)
    tokens, issue_ms = sim.broker.security.tokens, token.issue_ms
    sim.advance(HOUR_MS - 10)
    assert sim.result(tokens.renew(BOB, mac, 2 * HOUR_MS)) == issue_ms + 2 * HOUR_MS - 10
    assert sim.result(tokens.renew(ANN, mac, 100)) == issue_ms + HOUR_MS + 90
    with pytest.raises(TokenOwnerMismatch):
        tokens.renew(Principal("User", "eve"), mac, 1)
    with pytest.raises(TokenNotFound):
        tokens.renew(ANN, mac[:-1], 1)
    for _ in range(7):
        sim.result(tokens.renew(ANN, mac, -1))
        sim.advance(HOUR_MS)
    with pytest.raises((TokenExpired, TokenNotFound)):
        tokens.renew(ANN, mac, -1)  # the maximum lifetime is over


def test_a_token_is_ended_at_once_or_later() -> None:
    sim = Simulation(KEY)
    tokens, (token, mac), (later, later_mac) = sim.broker.security.tokens, create(sim), create(sim)
    with pytest.raises(TokenOwnerMismatch):
        tokens.expire(Principal("User", "eve"), mac, -1)
    assert sim.result(tokens.expire(BOB, mac, -1)) == -1
    assert sim.result(tokens.expire(ANN, later_mac, 100)) == later.issue_ms + 100
    assert ids(sim) == {later.id}
    assert sim.broker.security.find_scram_account("SCRAM-SHA-256", token.id, True) is None
    with pytest.raises(TokenNotFound):
        tokens.expire(BOB, mac, -1)
    sim.advance(101)
    with pytest.raises(TokenExpired):
        tokens.expire(ANN, later_mac, 5)
    assert sim.result(tokens.expire(ANN, later_mac, -1)) == -1


def test_lifetimes_are_at_most_the_settings() -> None:
    sim = Simulation({**KEY, "delegation.token.max.lifetime.ms": 1000, "delegation.token.expiry.time.ms": 5000})
    for lifetime_ms, expected_ms in ((0, 1000), (-1, 1000), (10, 10), (9999, 1000), (2**63 - 1, 1000)):
        token = create(sim, lifetime_ms=lifetime_ms).token
        assert (token.max_ms, token.expiry_ms) == (token.issue_ms + expected_ms,) * 2


def test_ended_tokens_are_removed_from_the_store() -> None:
    sim = Simulation({**KEY, "delegation.token.expiry.check.interval.ms": 10_000})
    create(sim, lifetime_ms=5_000)
    left = create(sim).token.id
    sim.advance(10_000)
    assert set(sim.store.read(PREFIX)) == {f"{PREFIX}{left}"}
    assert sim.broker.security.keys() == [f"{PREFIX}{left}"]


def test_ended_tokens_of_another_key_are_removed_too() -> None:
    sim = Simulation({**KEY, "delegation.token.expiry.check.interval.ms": 10_000})
    create(sim, lifetime_ms=15_000)
    left = create(sim).token.id
    sim.stop()
    other = sim.restarted(lambda settings: settings.update({"delegation.token.secret.key": "KEY-TWO"}))
    other.broker.metadata.cache.commit("test", {f"{PREFIX}damaged": b"[]"}, lambda error: None)
    other.advance(10_000)
    assert len(other.store.read(PREFIX)) == 3, "another broker may have the former key still"
    other.advance(10_000)
    assert set(other.store.read(PREFIX)) == {f"{PREFIX}{left}", f"{PREFIX}damaged"}


def test_all_brokers_of_a_cluster_know_a_token() -> None:
    members = Members(3, KEY)
    token, mac = create(members[1])
    members.settle()
    assert all(ids(members[node]) == {token.id} for node in (1, 2, 3))
    members[2].result(members[2].broker.security.tokens.expire(ANN, mac, -1))
    members.settle()
    assert all(ids(members[node]) == set() for node in (1, 2, 3))


@pytest.mark.parametrize("is_stored", [False, True])
def test_a_power_cut_leaves_a_token_or_none(tmp_path: Path, is_stored: bool) -> None:
    path = tmp_path / "metadata.sqlite"
    sim = Simulation(KEY, store=SqliteStore(path))
    first = create(sim).token.id
    promise = sim.broker.security.tokens.create(ANN, ANN, [], -1)
    sim.jobs.run_all() if is_stored else None  # its credentials are made, and in another job it is stored
    sim.jobs.run_all() if is_stored else None
    after = Simulation(KEY, store=SqliteStore(path))
    assert len(ids(after)) == (2 if is_stored else 1)
    assert first in ids(after)
    assert promise.done is is_stored


def test_without_a_key_there_are_no_tokens_and_another_key_makes_them_invalid(
    caplog: pytest.LogCaptureFixture,
) -> None:
    sim = Simulation(KEY)
    token, mac = create(sim)
    create(sim)
    sim.stop()
    with caplog.at_level(logging.INFO, "kqueue.security"):
        other = sim.restarted(lambda settings: settings.update({"delegation.token.secret.key": "KEY-TWO"}))
    assert ids(other) == set()
    assert other.broker.security.find_scram_account("SCRAM-SHA-256", token.id, True) is None
    [line] = [record.getMessage() for record in caplog.records if record.name == "kqueue.security"]
    assert line.startswith("2 delegation tokens can't be used")
    assert not any(secret in line for secret in ("KEY-TWO", "brokers-key", mac.hex()))
    other.stop()
    none = other.restarted(lambda settings: settings.pop("delegation.token.secret.key"))
    tokens = none.broker.security.tokens
    assert none.broker.security.find_scram_account("SCRAM-SHA-256", token.id, True) is None
    for call in (lambda: tokens.create(ANN, ANN, [], 1), lambda: tokens.renew(ANN, mac, 1), tokens.all):
        with pytest.raises(TokensDisabled):
            call()


def test_a_damaged_entry_is_unknown_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    sim = Simulation(KEY)
    token, mac = create(sim)
    with caplog.at_level(logging.INFO, "kqueue.security"):
        sim.broker.metadata.cache.commit("test", {f"{PREFIX}{token.id}": b"damaged"}, lambda error: None)
        sim.settle()
        create(sim)
    [line] = [record.getMessage() for record in caplog.records if record.name == "kqueue.security"]
    assert line.startswith("1 delegation tokens can't be used")
    assert token.id not in ids(sim)
    with pytest.raises(TokenNotFound):
        sim.broker.security.tokens.renew(ANN, mac, 1)


def test_a_store_that_fails_is_the_error() -> None:
    store = FailingStore()
    sim = Simulation(KEY, store=store)
    store.failing = True
    promise = sim.broker.security.tokens.create(ANN, ANN, [], -1)
    sim.settle()
    assert isinstance(promise.error, StorageFailed)
    assert ids(sim) == set()


def test_the_number_of_tokens_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delegation_tokens, "TOKENS_OF_REQUESTER_MAX", 2)
    monkeypatch.setattr(delegation_tokens, "TOKENS_MAX", 3)
    sim = Simulation(KEY)
    tokens = sim.broker.security.tokens
    _, mac = create(sim)
    create(sim, BOB)
    with pytest.raises(PolicyViolation, match="too many"):
        create(sim)
    sim.result(tokens.create(BOB, BOB, [], -1))
    with pytest.raises(PolicyViolation, match="too many"):
        tokens.create(BOB, BOB, [], -1)
    sim.result(tokens.expire(ANN, mac, -1))
    create(sim)


def test_tokens_that_are_being_made_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delegation_tokens, "TOKENS_OF_REQUESTER_MAX", 2)
    store = FailingStore()
    sim = Simulation(KEY, store=store)
    tokens = sim.broker.security.tokens
    store.failing = True
    tokens.create(ANN, ANN, [], -1)
    tokens.create(ANN, ANN, [], -1)
    with pytest.raises(PolicyViolation, match="too many"):
        tokens.create(ANN, ANN, [], -1)
    sim.settle()  # both fail
    store.failing = False
    create(sim)
    create(sim)
    with pytest.raises(PolicyViolation, match="too many"):
        create(sim)


def test_ended_tokens_are_removed_in_several_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delegation_tokens, "REMOVED_MAX", 2)
    sim = Simulation({**KEY, "delegation.token.expiry.check.interval.ms": 10_000})
    for _ in range(5):
        create(sim, lifetime_ms=5_000)
    sim.advance(10_000)
    assert sim.store.read(PREFIX) == {}


def test_no_secret_is_in_any_text() -> None:
    sim = Simulation(KEY)
    created = create(sim)
    for text in (repr(created), repr(sim.broker.security), repr(sim.broker.security.tokens.all())):
        assert created.hmac.hex() not in text
        assert repr(created.hmac)[2:10] not in text
        assert "brokers-key" not in text
    assert not any(b"brokers-key" in entry.value for entry in sim.store.read("/").values())
