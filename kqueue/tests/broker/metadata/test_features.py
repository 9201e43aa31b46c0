from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kqueue.base.errors import InvalidUpdateVersion, StorageFailed
from kqueue.broker.metadata import features
from kqueue.broker.metadata.features import FEATURES, FeatureUpdate, UpgradeType
from kqueue.metadata.memory import MemoryStore
from kqueue.replication.registrations import BROKERS_PREFIX, BrokerRegistration
from kqueue.testing.simulation import Simulation
from kqueue.tests.broker.failing_store import FailingStore
from kqueue.tests.broker.members import Members
from kqueue.tests.tables import for_each

UP, SAFE, UNSAFE = UpgradeType
METADATA, TRANSACTION = features.METADATA_VERSION, features.TRANSACTION_VERSION
GROUP, SHARE, STREAMS = features.GROUP_VERSION, features.SHARE_VERSION, features.STREAMS_VERSION


def test_a_new_cluster_has_the_levels_of_kafka_4() -> None:
    current = Simulation().broker.metadata.features
    assert current.levels.finalized == {METADATA: 30, TRANSACTION: 2, GROUP: 1, SHARE: 1, STREAMS: 1}
    assert current.level(TRANSACTION) == 2
    assert current.level("nope") == 0
    assert [feature[:3] for feature in current.levels.supported] == [
        (METADATA, 7, 30),
        (TRANSACTION, 0, 2),
        (GROUP, 0, 1),
        (SHARE, 0, 1),
        (STREAMS, 0, 1),
    ]


def test_a_level_outlives_a_restart_and_raises_the_epoch() -> None:
    sim = Simulation()
    epoch = sim.broker.metadata.features.levels.epoch
    promise = sim.broker.metadata.features.update([FeatureUpdate(TRANSACTION, 1, SAFE)])
    assert sim.broker.metadata.features.level(TRANSACTION) == 2, "not before it is stored"
    sim.result(promise)
    assert sim.broker.metadata.features.level(TRANSACTION) == 1
    sim.stop()
    again = sim.restarted()
    assert again.broker.metadata.features.level(TRANSACTION) == 1
    assert again.broker.metadata.features.levels.epoch == epoch + 1


def test_level_0_is_not_finalized() -> None:
    sim = Simulation()
    sim.result(sim.broker.metadata.features.update([FeatureUpdate(TRANSACTION, 0, UNSAFE)]))
    assert sim.broker.metadata.features.levels.finalized == {METADATA: 30, GROUP: 1, SHARE: 1, STREAMS: 1}
    assert sim.broker.metadata.features.level(TRANSACTION) == 0


def test_an_update_to_the_level_of_now_stores_only_that_it_is_wanted() -> None:
    sim = Simulation()
    same = [FeatureUpdate(TRANSACTION, 2, UP)]
    sim.result(sim.broker.metadata.features.update(same))
    epoch = sim.broker.metadata.features.levels.epoch
    assert sim.broker.metadata.features.update(same).done, "it is stored already"
    assert sim.broker.metadata.features.levels.epoch == epoch


@for_each(
    "update, message",
    [
        ((TRANSACTION, 1, 9), "Invalid update version 1 .* Upgrade type 9 is unknown"),
        ((TRANSACTION, -1, SAFE), "A level is not negative"),
        (("nope", 1, UP), "for feature nope. This broker does not know the feature"),
        ((TRANSACTION, 3, UP), "supports levels 0 to 2"),
        ((METADATA, 31, UP), "supports levels 7 to 30"),
        ((METADATA, 0, UNSAFE), "supports levels 7 to 30"),
        ((TRANSACTION, 1, UP), "The level is 2; a lower one needs a safe or an unsafe downgrade"),
        ((METADATA, 29, UP), "a lower one needs"),
        ((METADATA, 29, SAFE), "can't be written in an older format"),
        ((METADATA, 7, UNSAFE), "can't be written in an older format"),
    ],
)
def test_refused_updates_name_the_reason_and_change_nothing(update: tuple[str, int, int], message: str) -> None:
    sim = Simulation()
    updates = [FeatureUpdate(TRANSACTION, 1, SAFE), FeatureUpdate(*update)]
    if update[0] == TRANSACTION:
        updates = updates[1:]
    for refuse in (sim.broker.metadata.features.check, sim.broker.metadata.features.update):
        with pytest.raises(InvalidUpdateVersion, match=message):
            refuse(updates)
    sim.settle()
    assert sim.broker.metadata.features.level(TRANSACTION) == 2
    assert sim.broker.metadata.cache.get(features.KEY) is None


def test_a_higher_level_is_no_downgrade() -> None:
    sim = Simulation()
    sim.result(sim.broker.metadata.features.update([FeatureUpdate(TRANSACTION, 0, SAFE)]))
    with pytest.raises(InvalidUpdateVersion, match="The level is 0, so this is no downgrade"):
        sim.broker.metadata.features.check([FeatureUpdate(TRANSACTION, 1, SAFE)])


LEVELS = st.tuples(st.integers(-1, 3), st.integers(0, 4))


@given(st.lists(LEVELS, max_size=5))
def test_updates_of_one_feature_apply_in_order_or_not_at_all(changes: list[tuple[int, int]]) -> None:
    """Against a model: one level, changed step by step."""
    sim = Simulation()
    model: int | None = 2
    for level, kind in changes:
        allowed = 0 <= level <= 2 and (
            (kind == UP and level >= model) or (kind in (SAFE, UNSAFE) and level <= model)  # type: ignore[operator]
        )
        model = level if allowed else None
        if model is None:
            break
    updates = [FeatureUpdate(TRANSACTION, level, kind) for level, kind in changes]
    if model is None:
        with pytest.raises(InvalidUpdateVersion):
            sim.broker.metadata.features.update(updates)
        model = 2
    else:
        sim.result(sim.broker.metadata.features.update(updates))
    assert sim.broker.metadata.features.level(TRANSACTION) == model


def test_a_level_that_is_not_stored_does_not_change() -> None:
    store = FailingStore()
    sim = Simulation(store=store)
    before = sim.broker.metadata.features.levels
    store.failing = True
    with pytest.raises(StorageFailed, match="could not change feature levels: no disk"):
        sim.result(sim.broker.metadata.features.update([FeatureUpdate(TRANSACTION, 1, SAFE)]))
    assert sim.broker.metadata.features.levels == before


@for_each(
    "value, message",
    [
        (b"not json", "/features can't be read"),
        (b'{"levels": {}}', "/features can't be read"),
        (b'{"levels": {"transaction.version": 3}, "changes": 1}', "transaction.version at level 3"),
        (
            b'{"levels": {"new.version": 1}, "changes": 1}',
            "at level 1, which this version does not",
        ),
    ],
)
def test_a_start_refuses_levels_that_this_build_does_not_support(value: bytes, message: str) -> None:
    store = MemoryStore()
    store.commit({}, {features.KEY: value}, [])
    with pytest.raises(StorageFailed, match=message):
        Simulation(store=store)


def test_a_build_with_a_higher_default_has_a_higher_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    epoch = Simulation().broker.metadata.features.levels.epoch
    monkeypatch.setattr(features, "FEATURES", (*FEATURES, features.Feature("new.version", 0, 1, 1)))
    assert Simulation().broker.metadata.features.levels.epoch > epoch


def test_all_brokers_of_a_cluster_must_support_a_level() -> None:
    """Those that are fenced too, as in Kafka: they will be back."""
    members = Members(3)

    def register(node: int, *, fenced: bool = False, **supported: tuple[int, int]) -> None:
        levels = {name.replace("_", "."): range for name, range in supported.items()}
        record = BrokerRegistration(node, 1, f"life 1 of {node}", {}, fenced=fenced, features=levels)
        members.store.commit({}, {f"{BROKERS_PREFIX}{node}": record.to_bytes()}, [])
        members.settle()

    for node in (1, 2, 3):
        register(node, transaction_version=(0, 2))
    levels = members[1].broker.metadata.features
    members.result(levels.update([FeatureUpdate(TRANSACTION, 0, SAFE)]))
    register(2, fenced=True, transaction_version=(0, 1))
    with pytest.raises(InvalidUpdateVersion, match=r"version 2 for feature .* Broker 2 only supports versions 0-1\."):
        levels.update([FeatureUpdate(TRANSACTION, 2, UP)])
    with pytest.raises(InvalidUpdateVersion, match=r"Broker 2 only supports"):
        levels.check([FeatureUpdate(TRANSACTION, 2, UP)])
    register(3, group_version=(0, 1))
    with pytest.raises(InvalidUpdateVersion, match=r"Broker 3 does not support this feature\."):
        levels.update([FeatureUpdate(TRANSACTION, 1, UP)])
    register(3, transaction_version=(0, 2))
    members.result(levels.update([FeatureUpdate(TRANSACTION, 1, UP)]))
    assert [members[node].broker.metadata.features.level(TRANSACTION) for node in (1, 2, 3)] == [1, 1, 1]
