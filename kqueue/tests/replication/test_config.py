from __future__ import annotations

from kqueue.base.config import Config
from kqueue.config.catalog import CATALOG
from kqueue.replication.config import (
    CLUSTER_STORE,
    SETTINGS,
    FetcherConfig,
    MemberConfig,
    RebalanceConfig,
    TopicReplication,
)
from kqueue.tests.tables import for_each


def test_the_defaults_are_kafkas() -> None:
    config = Config(CATALOG)
    assert config[CLUSTER_STORE] is None
    assert FetcherConfig.of(config) == (1, 1_048_576, 10_485_760, 1, 500, 1000)
    assert MemberConfig.of(config) == (9000, 2000, 30_000, True)
    assert RebalanceConfig.of(config) == (True, 300_000)
    assert TopicReplication.of(config.for_topic({})) == (1, False)


def test_values_are_those_in_force() -> None:
    config = Config(CATALOG, {"num.replica.fetchers": 3, "min.insync.replicas": 2})
    assert FetcherConfig.of(config).fetchers == 3
    assert TopicReplication.of(config.for_topic({})).min_insync == 2
    assert TopicReplication.of(config.for_topic({"min.insync.replicas": "1"})).min_insync == 1


@for_each("name", [row.name for row in SETTINGS if row.name != CLUSTER_STORE])
def test_all_but_the_store_have_no_effect_on_a_single_broker(name: str) -> None:
    assert CATALOG.broker[name].cluster_only
