"""Tests of `kqueue.broker.access.scram_users`: what is stored, found again, shared, and refused."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kqueue.base.errors import CorruptData, StorageFailed
from kqueue.broker.access import scram_users
from kqueue.broker.access.scram_users import PREFIX, ScramAlteration, decode_user, encode_user
from kqueue.metadata.memory import MemoryStore
from kqueue.metadata.sqlite import SqliteStore
from kqueue.security.errors import UnacceptableCredential
from kqueue.security.principals import Principal
from kqueue.security.scram_credentials import SCRAM_MECHANISMS, ScramCredential, ScramMechanism
from kqueue.testing.simulation import Simulation
from kqueue.tests.broker.failing_store import FailingStore
from kqueue.tests.broker.members import Members
from kqueue.tests.thorough import examples

SHA256, SHA512 = SCRAM_MECHANISMS.values()


def credential(mechanism: ScramMechanism = SHA256, filler: int = 1, iterations: int = 4096) -> ScramCredential:
    key = bytes([filler]) * mechanism.key_bytes
    return ScramCredential(b"salt", key, key, iterations)


def setting(user: str, mechanism: ScramMechanism = SHA256, filler: int = 1) -> ScramAlteration:
    return ScramAlteration(user, mechanism, credential(mechanism, filler))


def deletion(user: str, mechanism: ScramMechanism = SHA256) -> ScramAlteration:
    return ScramAlteration(user, mechanism, None)


def alter(sim: Simulation, *alterations: ScramAlteration) -> None:
    sim.result(sim.broker.security.scram.alter(alterations))


def known(sim: Simulation) -> dict[tuple[str, str], ScramCredential]:
    users = sim.broker.security.scram
    return {
        (user, mechanism.name): credential
        for user in users.users()
        for mechanism, credential in users.of_user(user).items()
    }


ALTERATIONS = st.builds(
    lambda user, mechanism, filler: ScramAlteration(
        user, mechanism, None if filler is None else credential(mechanism, filler)
    ),
    st.sampled_from(["ann", "bob", "a/b", "Ä", ".."]),
    st.sampled_from([SHA256, SHA512]),
    st.none() | st.integers(1, 3),
)


@given(st.lists(st.lists(ALTERATIONS, max_size=3), max_size=6))
@settings(max_examples=examples(30))
def test_credentials_outlive_a_restart_unless_deleted(changes: list[list[ScramAlteration]]) -> None:
    sim = Simulation()
    expected: dict[tuple[str, str], ScramCredential] = {}
    for alterations in changes:
        alter(sim, *alterations)
        for user, mechanism, new in alterations:
            expected.pop((user, mechanism.name), None)
            if new is not None:
                expected[user, mechanism.name] = new
        assert known(sim) == expected
    sim.stop()
    assert known(sim.restarted()) == expected
    assert set(sim.store.read(PREFIX)) == {f"{PREFIX}{user}" for user, _ in expected}


def test_changes_at_the_same_time_are_all_stored() -> None:
    sim = Simulation()
    users = sim.broker.security.scram
    promises = [users.alter([setting("ann")]), users.alter([setting("ann", SHA512)]), users.alter([setting("bob")])]
    sim.settle()
    assert [promise.result() for promise in promises] == [None, None, None]
    assert set(known(sim)) == {("ann", "SCRAM-SHA-256"), ("ann", "SCRAM-SHA-512"), ("bob", "SCRAM-SHA-256")}


def test_every_broker_of_a_cluster_knows_them_and_forgets_them() -> None:
    members = Members(3)
    alter(members[1], setting("ann"))
    members.settle()
    for node in (1, 2, 3):
        account = members[node].broker.security.find_scram_account("SCRAM-SHA-256", "ann", False)
        assert account is not None
        assert (account.credential, account.principal) == (credential(), Principal("User", "ann"))
    alter(members[2], deletion("ann"))
    members.settle()
    assert {members[node].broker.security.find_scram_account("SCRAM-SHA-256", "ann", False) for node in (1, 2, 3)} == {
        None
    }


def test_two_brokers_change_one_user_at_the_same_time() -> None:
    members = Members(2)
    first = members[1].broker.security.scram.alter([setting("ann")])
    second = members[2].broker.security.scram.alter([setting("ann", SHA512)])
    members.settle()
    assert (first.result(), second.result()) == (None, None)
    assert len(known(members[1])) == len(known(members[2])) == 2


def test_a_user_has_no_account_of_another_mechanism_or_case_and_is_no_token() -> None:
    sim = Simulation()
    alter(sim, setting("ann"))
    find = sim.broker.security.find_scram_account
    assert find("SCRAM-SHA-256", "ann", False) is not None
    assert (find("SCRAM-SHA-512", "ann", False), find("SCRAM-SHA-256", "Ann", False)) == (None, None)
    assert find("SCRAM-SHA-256", "ann", True) is None


def test_a_store_that_fails_is_the_error_and_nothing_changes() -> None:
    store = FailingStore()
    sim = Simulation(store=store)
    store.failing = True
    promise = sim.broker.security.scram.alter([setting("ann")])
    sim.settle()
    assert isinstance(promise.error, StorageFailed)
    assert known(sim) == {}
    store.failing = False
    alter(sim, setting("ann"))
    assert set(known(sim)) == {("ann", "SCRAM-SHA-256")}


DAMAGED = [
    b"",
    b"{",
    b"[]",
    b"null",
    b'{"credentials": []}',
    b'{"credentials": [1]}',
    b'{"credentials": "x"}',
    b"[" * 100_000,
    json.dumps({"credentials": ["SCRAM-SHA-256$4096:c2FsdA==$AAAA:AAAA"]}).encode(),
    json.dumps({"credentials": ["SCRAM-SHA-256$99999:c2FsdA==$" + "A" * 43 + "=:" + "A" * 43 + "="]}).encode(),
    encode_user({SHA256: credential()}).replace(b"SCRAM-SHA-256", b"SCRAM-SHA-1"),
    json.dumps({"credentials": json.loads(encode_user({SHA256: credential()}))["credentials"] * 2}).encode(),
]


@pytest.mark.parametrize("value", DAMAGED)
def test_a_damaged_entry_gives_no_access_and_one_log_line(value: bytes, caplog: pytest.LogCaptureFixture) -> None:
    store = MemoryStore()
    store.commit({}, {f"{PREFIX}ann": value, f"{PREFIX}bob": encode_user({SHA256: credential()})}, [])
    with caplog.at_level(logging.INFO, "kqueue.security"):
        sim = Simulation(store=store)
        alter(sim, setting("eve"))
    lines = [record.getMessage() for record in caplog.records if record.name == "kqueue.security"]
    assert len(lines) == 1
    assert lines[0].startswith("the SCRAM credentials of user 'ann' are damaged")
    assert len(lines[0]) < 500
    assert "AAAA" not in lines[0]
    assert set(known(sim)) == {("bob", "SCRAM-SHA-256"), ("eve", "SCRAM-SHA-256")}
    assert sim.broker.security.find_scram_account("SCRAM-SHA-256", "ann", False) is None


def test_a_damaged_entry_is_replaced_or_deleted() -> None:
    store = MemoryStore()
    store.commit({}, {f"{PREFIX}ann": b"x", f"{PREFIX}bob": b"x"}, [])
    sim = Simulation(store=store)
    assert sim.broker.security.scram.is_known("bob", SHA512)
    alter(sim, setting("ann"), deletion("bob", SHA512))
    assert set(known(sim)) == {("ann", "SCRAM-SHA-256")}
    assert set(store.read(PREFIX)) == {f"{PREFIX}ann"}
    assert not sim.broker.security.scram.is_known("bob", SHA512)


@given(st.binary(max_size=80) | st.integers(0, 300).map(lambda n: encode_user({SHA256: credential()})[:n]))
def test_any_bytes_are_read_or_refused(value: bytes) -> None:
    try:
        credentials = decode_user(value)
    except CorruptData as error:
        assert "AQEBAQEB" not in str(error)  # noqa: PT017 - both outcomes are right
    else:
        assert credentials == {SHA256: credential()}


def test_the_number_of_users_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scram_users, "USERS_MAX", 2)
    sim = Simulation()
    alter(sim, setting("a"), setting("b"))
    with pytest.raises(UnacceptableCredential, match="at most 2"):
        sim.broker.security.scram.alter([setting("c")])
    alter(sim, setting("a", SHA512), deletion("b"))
    alter(sim, setting("c"))
    assert sim.broker.security.scram.users() == ["a", "c"]


@pytest.mark.parametrize("is_stored", [False, True])
def test_a_power_cut_leaves_all_of_a_change_or_nothing(tmp_path: Path, is_stored: bool) -> None:
    """Before the commit's job has run nothing is stored, after it all users are: SQLite has one
    transaction for them.
    """
    path = tmp_path / "metadata.sqlite"
    sim = Simulation(store=SqliteStore(path))
    alter(sim, setting("ann"), setting("bob"))
    before = known(sim)
    sim.broker.security.scram.alter([setting("ann", filler=2), deletion("bob"), setting("eve")])
    if is_stored:
        sim.jobs.run_all()  # the response was not sent yet
    after = Simulation(store=SqliteStore(path))
    expected = {("ann", "SCRAM-SHA-256"): credential(filler=2), ("eve", "SCRAM-SHA-256"): credential()}
    assert known(after) == (expected if is_stored else before)


def test_no_key_is_in_any_text() -> None:
    sim = Simulation()
    alter(sim, setting("ann", filler=65))
    security = sim.broker.security
    for text in (
        repr(security),
        repr(security.scram),
        repr(security.find_scram_account("SCRAM-SHA-256", "ann", False)),
    ):
        assert "AAAA" not in text
        assert "QUFB" not in text


def test_credential_forms_are_counted() -> None:
    sim = Simulation()
    forms = sim.broker.security.scram.forms
    more = credential(iterations=8192)
    alter(sim, setting("ann"), setting("bob"), ScramAlteration("cat", SHA256, more))
    assert forms.common(SHA256) == {(4096, 4): 2, (8192, 4): 1}
    alter(sim, ScramAlteration("bob", SHA256, more), deletion("ann"))
    assert forms.common(SHA256) == {(8192, 4): 2}
    assert forms.common(SHA512) == {}
