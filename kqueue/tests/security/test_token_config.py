from __future__ import annotations

from kqueue.base.config import Config
from kqueue.base.settings import Catalog
from kqueue.security.token_config import CHECK_INTERVAL_MS, EXPIRY_TIME_MS, MAX_LIFETIME_MS, SECRET_KEY, SETTINGS


def test_defaults_are_kafkas_and_the_key_is_a_secret() -> None:
    config = Config(Catalog(SETTINGS), {})
    assert config[SECRET_KEY] is None
    assert (config[MAX_LIFETIME_MS], config[EXPIRY_TIME_MS], config[CHECK_INTERVAL_MS]) == (
        604_800_000, 86_400_000, 3_600_000,
    )  # fmt: skip
    assert next(row for row in SETTINGS if row.name == SECRET_KEY).is_secret
