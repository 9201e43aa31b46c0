from __future__ import annotations

from pathlib import Path

import pytest

from kqueue.base.errors import SettingError
from kqueue.schema_registry.access.users_file import UsersFile
from kqueue.security.scram_credentials import SCRAM_MECHANISMS, encode_credential, make_credential


def test_users_have_passwords_in_clear_or_hashed(tmp_path: Path) -> None:
    mechanism = SCRAM_MECHANISMS["SCRAM-SHA-512"]
    hashed = encode_credential(mechanism, make_credential(mechanism, "b-secret"))
    file = tmp_path / "users"
    file.write_text(f"# users\n\nann=a-secret\nbob={hashed}\n")
    users = UsersFile(file)
    assert users.refusal("ann", "a-secret") is users.refusal("bob", "b-secret") is None
    for user, password in (("ann", "b-secret"), ("bob", hashed), ("eve", ""), ("ann", "")):
        assert users.refusal(user, password) == "User or password are wrong."


def test_a_file_that_changes_is_read_again_and_one_that_is_broken_is_not_used(tmp_path: Path) -> None:
    file = tmp_path / "users"
    file.write_text("ann=one\n")
    users = UsersFile(file)
    file.write_text("ann=another\n")
    assert users.refusal("ann", "one") is not None
    assert users.refusal("ann", "another") is None
    file.write_text("half a li")
    assert users.refusal("ann", "another") is None
    file.unlink()
    assert users.refusal("ann", "another") is None


def test_a_missing_file_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="--users-file: cannot read missing"):
        UsersFile(tmp_path / "missing")
