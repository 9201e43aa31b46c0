from __future__ import annotations

import random

from kqueue.records.partitioners.crc32 import Crc32ConsistentPartitioner, Crc32Partitioner
from kqueue.tests.tables import for_each

# key and hash, from librdkafka's test of its partitioners (0048)
HASHES = [
    (b"23456", 0xB1B451D7),
    (b"this is another string with more length to it perhaps", 0xB0150DF7),
    (b"hejsan", 0xD077037E),
]
# where librdkafka's `consistent` and `consistent_random` put these in a topic of 4 partitions, seen
# with confluent-kafka 2
PLACES = [(b"23456", 3), (b"hejsan", 2), (b"key-000", 2), (b"key-001", 0), (b"a", 3), (b"\xff\xfe\x00", 0)]
BOTH = for_each("factory", [Crc32Partitioner, Crc32ConsistentPartitioner])


@BOTH
@for_each("key, digest", HASHES)
def test_partition_is_the_published_crc_modulo_the_count(
    factory: type[Crc32ConsistentPartitioner], key: bytes, digest: int
) -> None:
    for count in (1, 7, 17, 1000):
        assert factory(random.Random(1)).partition(key, count, available=[0]) == digest % count


@BOTH
@for_each("key, place", PLACES)
def test_keys_are_placed_as_by_librdkafka(factory: type[Crc32ConsistentPartitioner], key: bytes, place: int) -> None:
    assert factory(random.Random(1)).partition(key, 4) == place


@for_each("key", [None, b""])
def test_records_without_a_key(key: bytes | None) -> None:
    consistent, anywhere = Crc32ConsistentPartitioner(random.Random(1)), Crc32Partitioner(random.Random(1))
    assert {consistent.partition(key, 5) for _ in range(50)} == {0}
    assert {anywhere.partition(key, 5) for _ in range(50)} == set(range(5))
    assert {anywhere.partition(key, 5, available=[3, 4]) for _ in range(50)} == {3, 4}
