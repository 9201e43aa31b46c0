from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2 as kafka_python_murmur2

from kqueue.records.partitioners.murmur2 import Murmur2Partitioner, murmur2
from kqueue.tests.tables import for_each

# key in hex, Utils.murmur2, and toPositive of it modulo 7 and 100: printed by Apache Kafka 4.3's
# own Java class
JAVA = [
    ("", 275646681, 2, 81),
    ("61", -1563381124, 5, 24),
    ("6162", 316155434, 0, 34),
    ("616263", 479470107, 4, 7),
    ("61626364", -1323649548, 5, 0),
    ("6162636465", 461995741, 4, 41),
    ("6b65792d303030", -2009316169, 2, 79),
    ("6b65792d303031", 667883291, 5, 91),
    ("6b65792d303432", -1721901714, 1, 34),
    ("3231", -973932308, 3, 40),
    ("666f6f626172", -790332482, 0, 66),
    ("612d6c6974746c652d6269742d6c6f6e672d737472696e67", -985981536, 1, 12),
    ("612d6c6974746c652d6269742d6c6f6e6765722d737472696e67", -1486304829, 0, 19),
    (
        "6c6b6a683233346c68396669756839307932336f697568736166756a6861646f66323239706872396831396838396838",
        -58897971,
        3,
        77,
    ),
    ("ff", -311467685, 5, 63),
    ("ffff", -1642832928, 0, 20),
    ("ffffff", 1548199422, 0, 22),
    ("ffffffff", 644171429, 6, 29),
    ("ffffffffff", -363838622, 2, 26),
    ("ffffffffffff", 28450676, 2, 76),
    ("ffffffffffffff", -71293549, 4, 99),
    ("ffffffffffffffff", 185950397, 3, 97),
    ("ffffffffffffffffff", 1612811207, 0, 7),
    ("183477a35a94c9bf390b770209d32a595d4a987d41f4b3e592471abe05194bb55dcab391", 1607538654, 1, 54),
    ("e98ee81edf7fae40bfe793d9fced52b202e34d15e5c4caaf166fc2edcea4fb1b", 1165620998, 3, 98),
    ("e944", 1081884379, 2, 79),
    ("b71cf8", -1082937505, 3, 43),
    ("693058b22edd1479f1953297e1c82141a6a46d99364cf461b317c99fee614cc5a74b029f8f81", -94013244, 6, 4),
    ("94aa2150847891d75da8dddd", -855362061, 1, 87),
    ("eb50781ae04364f9b3a3f3707eab79470ba3c885b66c499800da641a22a420ee9989", 1809447463, 5, 63),
    ("c9c38fbf7ae22a00a4174c64", -1832867708, 2, 40),
    ("9831c2d5e9f8c7dcb1c3", -926120083, 2, 65),
    ("347dd8728b", -1941435924, 1, 24),
    ("bb0ff5f4111a021c9a0168a981181c9a324f0aec09395a3213018ebde232b69b463d", 86966013, 1, 13),
    ("9960c80b6a214cc7b067f90295b0", 1275479475, 4, 75),
    ("e9bf8a819b01f5529ebc20efacd4d95a6166595aac5e505cd63fcdf74452a17edaf2ce71", -1709808788, 0, 60),
    ("500fcbc182e1ef30721c8d57fcee80ee", 763345545, 4, 45),
    ("65535585b763", 1304481910, 4, 10),
]
# hash of the key, from librdkafka's test of its partitioners (0048), which took it from Java
LIBRDKAFKA = [
    (b"", 0x106E08D9),
    (b"23456", 0x058D780F),
    (b"this is another string with more length to it perhaps", 0x4F7703DA),
    (b"hejsan", 0x5EC19395),
]


@for_each("key, signed, of_7, of_100", JAVA)
def test_javas_table(key: str, signed: int, of_7: int, of_100: int) -> None:
    raw = bytes.fromhex(key)
    assert murmur2(raw) == signed % 2**32
    partitioner = Murmur2Partitioner(random.Random(1))
    assert (partitioner.partition(raw, 7), partitioner.partition(raw, 100)) == (of_7, of_100)


@for_each("key, positive", LIBRDKAFKA)
def test_librdkafkas_table(key: bytes, positive: int) -> None:
    assert murmur2(key) & 0x7FFFFFFF == positive
    assert Murmur2Partitioner(random.Random(1)).partition(key, 17) == positive % 17


@given(st.binary(max_size=100))
def test_as_kafka_python(key: bytes) -> None:
    assert murmur2(key) == kafka_python_murmur2(key) % 2**32


def test_records_without_a_key_stick_together() -> None:
    partitioner = Murmur2Partitioner(random.Random(1))
    first = partitioner.partition(None, 1000, value=b"x" * 10_000)
    assert partitioner.partition(b"", 1000) == murmur2(b"") % 2**31 % 1000, "an empty key is a key"
    assert partitioner.partition(None, 1000, value=b"x" * 10_000) == first
    assert partitioner.partition(None, 1000, value=b"x") != first, "a batch is full"


def test_a_new_batch_of_the_clients() -> None:
    partitioner = Murmur2Partitioner(random.Random(1))
    first = partitioner.partition(None, 1000, topic="t")
    partitioner.new_batch("t")
    assert partitioner.partition(None, 1000, topic="t") != first
