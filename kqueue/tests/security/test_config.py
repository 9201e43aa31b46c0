from __future__ import annotations

import pytest

from kqueue.base.config import Config
from kqueue.base.errors import SettingError
from kqueue.config.catalog import CATALOG
from kqueue.security.config import SUPER_USERS, parse_super_users
from kqueue.security.principals import Principal


def test_super_users_are_separated_by_semicolons() -> None:
    value = " User:ann ;User:CN=bob,O=x;; "
    assert parse_super_users(value) == {Principal("User", "ann"), Principal("User", "CN=bob,O=x")}
    assert parse_super_users("") == set()


def test_super_users_without_a_type_are_refused() -> None:
    with pytest.raises(SettingError, match="super.users"):
        Config(CATALOG, {SUPER_USERS: "User:ann;bob"})
