from __future__ import annotations

import pytest

from kqueue.broker.tier.tier_objects import OtherCluster, check_cluster, delete_all, delete_topic, write_topic
from kqueue.tests.tables import for_each
from kqueue.tier.errors import TierCorrupt
from kqueue.tier.stores.memory import MemoryTierStore

ID = bytes(range(16))


def test_empty_tier_becomes_that_of_the_cluster_and_stays_it() -> None:
    store = MemoryTierStore("tests-identity")
    check_cluster(store, "mine")
    check_cluster(store, "mine")
    with pytest.raises(OtherCluster, match="memory://tests-identity is the tier of cluster 'mine', and this one is"):
        check_cluster(store, "other")


@for_each(
    "body, error",
    [
        (b'{"format": 2, "cluster_id": "mine"}', OtherCluster),
        (b'{"format": 1, "cluster_id": ["mine"]}', OtherCluster),
        (b"[]", TierCorrupt),
        (b"\xff", TierCorrupt),
        (b"[" * 10_000, TierCorrupt),
        (b"{}" * 1_000_000, TierCorrupt),
    ],
)
def test_identity_that_can_not_be_read_is_refused(body: bytes, error: type[Exception]) -> None:
    store = MemoryTierStore(f"tests-identity-{len(body)}")
    store.put("kqueue-tier.json", [body], len(body))
    with pytest.raises(error):
        check_cluster(store, "mine")


def test_deletion_begins_with_what_names_the_objects_and_keeps_other_topics() -> None:
    store = MemoryTierStore("tests-deletion")
    write_topic(store, "t", ID, 2, {"retention.ms": "5"})
    write_topic(store, "t2", ID, 1, {})
    prefix = next(entry.key for entry in store.list("topics/t")).removesuffix("/topic.json")
    for number in range(1200):
        store.put(f"{prefix}/0/segments/{number:020d}", [b"x"], 1)
    store.put(f"{prefix}/0/manifest", [b"x"], 1)
    deleted: list[list[str]] = []
    delete = store.delete
    store.delete = lambda keys: (deleted.append(list(keys)), delete(keys))[1]  # type: ignore[method-assign]
    delete_topic(store, "t", ID, 1)
    assert deleted[0] == [f"{prefix}/topic.json", f"{prefix}/0/manifest"]
    assert [entry.key.split("/")[1] for entry in store.list("topics")] == ["t2"]
    delete_all(store, prefix, [])
