from __future__ import annotations

import pytest

from kqueue.server.config import CATALOG
from kqueue.server.kafka_settings import FORMER, WITHOUT_MEANING, has_no_meaning


def test_no_setting_that_a_floor_reads_is_called_meaningless() -> None:
    assert sorted(name for name in CATALOG.broker if has_no_meaning(name)) == [], "it has a meaning now: take it out of the table"


def test_the_two_tables_share_no_name() -> None:
    assert not WITHOUT_MEANING & FORMER


@pytest.mark.parametrize(
    "name",
    ["num.network.threads", "process.roles", "zookeeper.connect", "listener.name.internal.ssl.keystore.location", "ssl.keystore.type"],
)
def test_settings_of_kafka_are_known(name: str) -> None:
    assert has_no_meaning(name)


@pytest.mark.parametrize("name", ["", "log.dirs", "num.network.thread", "kqueue.flush", "listener.name"])
def test_others_are_not(name: str) -> None:
    assert not has_no_meaning(name)
