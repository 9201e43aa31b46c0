"""Passwords in clear and hashed."""

from __future__ import annotations

from kqueue.security.sasl import passwords as module
from kqueue.security.sasl.passwords import HASHED_BY, Passwords
from kqueue.security.scram_credentials import make_credential, salted_password


def test_the_work_is_the_same_for_every_user(monkeypatch):
    calls: list[tuple[str, int]] = []
    monkeypatch.setattr(
        module, "salted_password", lambda *args: calls.append(("pbkdf2", args[3])) or salted_password(*args)
    )
    passwords = Passwords(
        {"ann": "secret", "eva": make_credential(HASHED_BY, "hidden", 5000)},
        lambda key, text: calls.append(("digest", len(key))) or bytes(32),
    )

    def work(user: str) -> list[tuple[str, int]]:
        calls.clear()
        passwords.matches(user, "a guess")
        return list(calls)

    assert work("nobody") == work("ann") == work("eva") == [("digest", 32), ("pbkdf2", 5000)]
