from __future__ import annotations

from kqueue.base.config import Config
from kqueue.base.settings import Catalog
from kqueue.transactions.config import SETTINGS, TransactionConfig


def test_the_defaults_are_kafkas() -> None:
    assert TransactionConfig.of(Config(Catalog(SETTINGS), {})) == TransactionConfig()


def test_each_value_comes_from_its_setting() -> None:
    values = {
        "transaction.max.timeout.ms": 1,
        "transactional.id.expiration.ms": 2,
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": 3,
        "transaction.remove.expired.transaction.cleanup.interval.ms": 4,
        "transaction.two.phase.commit.enable": True,
        "kqueue.max.transactional.ids": 6,
        "kqueue.max.transaction.partitions": 7,
        "kqueue.max.transactions.partitions": 8,
    }
    assert TransactionConfig.of(Config(Catalog(SETTINGS), values)) == TransactionConfig(1, 2, 3, 4, True, 6, 7, 8)
