from __future__ import annotations

import random
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kqueue.base import names
from kqueue.base.errors import InvalidTopic
from kqueue.tests.tables import for_each

topics = st.text(string.ascii_letters + string.digits + "._-", min_size=1, max_size=249).filter(
    lambda name: name not in (".", "..")
)


@given(topics, st.integers(0, 10**6))
def test_a_folder_name_gives_back_its_topic_and_partition(topic: str, partition: int) -> None:
    assert names.parse_partition_folder(names.partition_folder(topic, partition)) == (topic, partition)


@for_each("name", ["", None, ".", "..", "a/b", "a\0b", "a" * 250, "ä", "a b", "a\n", "../x", "a\\b"])
def test_names_that_can_not_be_a_topic(name: str | None) -> None:
    with pytest.raises(InvalidTopic):
        names.check_topic(name)


@for_each(
    "folder",
    ["orders", "orders-", "orders-01", "orders-0.abc-delete", "orders-0-stray", "-0", "orders-x", "..-0", "a/b-0"],
)
def test_folders_that_are_no_partition(folder: str) -> None:
    assert names.parse_partition_folder(folder) is None or folder == "-0"


@given(st.text(max_size=30))
def test_no_name_leads_out_of_its_folder(name: str) -> None:
    try:
        folder = names.partition_folder(name, 0)
    except InvalidTopic:
        return
    assert "/" not in folder
    assert "\0" not in folder
    assert folder not in (".", "..")


def test_dots_and_underscores_collide() -> None:
    assert names.collision_key("a.b") == names.collision_key("a_b")
    assert names.collision_key("a-b") != names.collision_key("a_b")


@given(st.binary(min_size=16, max_size=16))
def test_ids_survive_being_written(uuid: bytes) -> None:
    assert names.parse_uuid(names.uuid_text(uuid)) == uuid


def test_a_known_id_is_written_as_kafka_does() -> None:
    assert names.uuid_text(names.UUID_ZERO) == "A" * 22
    with pytest.raises(ValueError, match="22 characters"):
        names.parse_uuid("short")


def test_random_ids_are_version_4_and_do_not_start_with_a_dash() -> None:
    rng = random.Random(1)
    ids = [names.random_uuid(rng) for _ in range(500)]
    assert len(set(ids)) == 500
    assert all(uuid[6] >> 4 == 4 and uuid[8] >> 6 == 2 for uuid in ids)
    assert not any(names.uuid_text(uuid).startswith("-") for uuid in ids)


def test_nearest_name() -> None:
    assert names.did_you_mean("murmur", ["murmur2", "random"]) == "; did you mean 'murmur2'?"
    assert names.did_you_mean("xyz", ["murmur2"]) == ""


def test_names_from_strangers_are_not_compared_at_any_length() -> None:
    assert names.nearest("a" * 1000, ["a" * 999]) == "a" * 999
    assert names.nearest("a" * 1001, ["a" * 1000]) is None
