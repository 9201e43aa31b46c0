from __future__ import annotations

from kqueue.groups.modern.topics import TopicMetadata, metadata_hash
from kqueue.tests.tables import for_each

T = TopicMetadata(bytes.fromhex("c6c3dd6287574b0eaece14e3f2233b02"), "t", 4)
U = TopicMetadata(bytes.fromhex("4bce1afbf8164c75b7b50c6864c7fa14"), "u", 2)


class Topics:
    version = 1

    def __init__(self, *topics: TopicMetadata) -> None:
        self._topics = {topic.name: topic for topic in topics}

    def find(self, name: str) -> TopicMetadata | None:
        return self._topics.get(name)

    def name_of(self, id: bytes) -> str | None:
        return None

    def names(self) -> list[str]:
        return list(self._topics)


@for_each("names, expected", [(["t"], -3628884125911543366), (["u", "t"], -9007881810043556221), (["x"], 0), ([], 0)])
def test_the_hash_is_kafkas(names: list[str], expected: int) -> None:
    """Recorded from the records that Kafka 4.3 wrote for these topics."""
    assert metadata_hash(names, Topics(T, U)) == expected


def test_every_change_of_a_topic_changes_the_hash() -> None:
    changed = [
        T,
        T._replace(partition_count=5),
        T._replace(id=bytes(15) + b"1"),
        T._replace(racks=(("a",),) * 4),
        T._replace(racks=(("a",), ("a",), ("a",), ("b",))),
    ]
    assert len({metadata_hash(["t"], Topics(topic)) for topic in changed}) == len(changed)
    racks = (("a", "b"),) * 4
    assert metadata_hash(["t"], Topics(T._replace(racks=racks))) == metadata_hash(
        ["t"], Topics(T._replace(racks=(("b", "a"),) * 4))
    )
