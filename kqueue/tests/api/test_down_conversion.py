"""Old Fetch versions get what they can read, and nothing that they can't."""

from __future__ import annotations

import pytest

from kqueue.api import slices
from kqueue.api.down_conversion import BYTES_MAX
from kqueue.records.any_format import iter_any_batches, iter_any_records
from kqueue.records.batch import COMMIT, control_key_value
from kqueue.records.builder import BatchBuilder
from kqueue.records.message_set import STEP_MESSAGES
from kqueue.tests.api.fetch_client import append, fetch, one, parts, request, values, want
from kqueue.tests.api.harness import NOW_MS, SimulatedClient, batch
from kqueue.tests.thorough import corners

MAGIC = {0: 0, 1: 0, 2: 1, 3: 1}


@pytest.fixture
def client() -> SimulatedClient:
    client = SimulatedClient()
    client.sim.topic("t", 3)
    return client


def magics(raw: bytes) -> set[int]:
    return {unit.magic for _, unit in iter_any_batches(raw)}


@pytest.mark.parametrize("version", range(4))
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4"])
def test_below_4_batches_become_message_sets(client: SimulatedClient, version: int, codec: str) -> None:
    client.produce("t", batch(b"a" * 50, b"b" * 50, codec=codec))
    client.produce("t", batch(b"c" * 50, codec=codec))
    raw = bytes(one(fetch(client, version, want())).records or b"")
    assert magics(raw) == {MAGIC[version]}
    records = list(iter_any_records(raw))
    assert [(record.offset, record.key, record.value) for record in records] == [
        (0, b"k", b"a" * 50),
        (1, b"k", b"b" * 50),
        (2, b"k", b"c" * 50),
    ]
    assert {record.timestamp for record in records} == (
        {-1} if MAGIC[version] == 0 else {1_700_000_000_000, 1_700_000_000_001}
    )


@pytest.mark.parametrize("version", range(4))
def test_records_before_the_offset_are_left_out(client: SimulatedClient, version: int) -> None:
    client.produce("t", batch(b"a", b"b", b"c"))
    assert values(one(fetch(client, version, want(offset=1)))) == [b"b", b"c"]


@pytest.mark.parametrize("version", range(3))
def test_below_3_sizes_are_hard_and_a_message_is_cut(client: SimulatedClient, version: int) -> None:
    for partition in (0, 1):
        client.produce("t", batch(b"x" * 1000), partition=partition)
    for data in parts(fetch(client, version, want(0, size=100), want(1, size=100))):
        raw = bytes(data.records or b"")
        assert len(raw) == 100
        assert list(iter_any_batches(raw)) == []  # no whole message: the client sees that its size is too small


@pytest.mark.parametrize("version", range(4))
def test_below_4_zstd_comes_uncompressed(client: SimulatedClient, version: int) -> None:
    client.produce("t", batch(b"a" * 100))
    client.produce("t", batch(b"b" * 100, codec="zstd"))
    data = one(fetch(client, version, want()))
    assert values(data) == [b"a" * 100, b"b" * 100]
    assert {unit.codec_id for _, unit in iter_any_batches(bytes(data.records or b""))} == {0}


@pytest.mark.parametrize("version", [4, 9, 10])
def test_from_4_on_it_is(client: SimulatedClient, version: int) -> None:
    """kafka-python 2.0 asks with 4 and reads zstd; Kafka sends it."""
    client.produce("t", batch(b"b" * 100, codec="zstd"))
    assert values(one(fetch(client, version, want()))) == [b"b" * 100]


@pytest.mark.parametrize("version", range(4))
def test_control_batches_are_skipped_so_that_clients_proceed(client: SimulatedClient, version: int) -> None:
    for _ in range(3):
        builder = BatchBuilder(producer_id=1, epoch=0, transactional=True, control=True)
        builder.append(1, *control_key_value(COMMIT, 0))
        append(client, bytes(builder.build()))
    assert values(one(fetch(client, version, want()))) == []
    client.produce("t", batch(b"after"))
    data = one(fetch(client, version, want(size=80)))
    assert [(record.offset, record.value) for record in iter_any_records(bytes(data.records or b""))] == [(3, b"after")]


@pytest.mark.parametrize("version", range(4, 10))
def test_from_4_on_batches_stay_as_they_are(client: SimulatedClient, version: int) -> None:
    client.produce("t", batch(b"a", b"b", codec="gzip"))
    assert magics(bytes(one(fetch(client, version, want())).records or b"")) == {2}


@pytest.mark.parametrize("version", corners(range(4), 1, 3))
@pytest.mark.parametrize("codec", corners(["none", "gzip", "zstd"], "gzip"))
def test_many_records_are_converted_in_slices(
    client: SimulatedClient, version: int, codec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slices, "SLICE_ITEMS", 20)
    count = 20 * STEP_MESSAGES + 1
    client.sim.topic("long", max_message_bytes="10000000")
    builder = BatchBuilder(codec)
    for _ in range(count):
        builder.append(NOW_MS, None, b"v")
    client.produce("long", bytes(builder.build()))
    started = client.start(request(client, version, want(size=1 << 24), topic="long"), version)
    assert started.response is None
    client.sim.settle()
    assert len(values(one(started.response))) == count


@pytest.mark.parametrize("version", range(4))
def test_response_converts_a_bounded_number_of_bytes(client: SimulatedClient, version: int) -> None:
    size = BYTES_MAX // 5
    for _ in range(7):
        client.produce("t", batch(b"x" * size))
    converted = values(one(fetch(client, version, want(size=1 << 30))))
    assert len(converted) == 4
