from __future__ import annotations

from typing import Any

import pytest

from kqueue.base.errors import StorageFailed
from kqueue.tests.api.harness import SimulatedClient, versions_of
from kqueue.tests.tables import for_each
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.init_producer_id import InitProducerIdRequest


@for_each("version", versions_of("init_producer_id"))
def test_each_producer_gets_its_own_id_with_epoch_0(version: int) -> None:
    client = SimulatedClient()
    responses = [client.ask(InitProducerIdRequest(transactional_id=None), version) for _ in range(3)]
    assert {response.error_code for response in responses} == {0}
    assert {response.producer_epoch for response in responses} == {0}
    assert len({response.producer_id for response in responses}) == 3
    assert min(response.producer_id for response in responses) >= 0


def test_the_first_waits_until_a_block_of_ids_is_stored() -> None:
    client = SimulatedClient()
    first, second = (client.start(InitProducerIdRequest(transactional_id=None), 4) for _ in range(2))
    assert first.response is None
    client.sim.settle()
    assert first.response.producer_id != second.response.producer_id  # type: ignore[attr-defined]
    assert (
        client.start(InitProducerIdRequest(transactional_id=None), 4).response.error_code == 0
    )  # at once, while the block lasts


def test_ids_are_never_given_twice_not_even_after_a_restart() -> None:
    client = SimulatedClient()
    before = client.ask(InitProducerIdRequest(transactional_id=None), 4).producer_id
    client.sim.stop()
    after = SimulatedClient(sim=client.sim.restarted()).ask(InitProducerIdRequest(transactional_id=None), 4).producer_id
    assert after > before


@for_each("version", versions_of("init_producer_id"))
def test_a_transactional_id_keeps_its_producer_id_and_each_producer_gets_the_next_epoch(version: int) -> None:
    client = SimulatedClient()
    responses = [
        client.ask(InitProducerIdRequest(transactional_id="tx", transaction_timeout_ms=60_000), version)
        for _ in range(3)
    ]
    assert {(response.error_code, response.producer_id) for response in responses} == {(0, responses[0].producer_id)}
    assert [response.producer_epoch for response in responses] == [0, 1, 2]
    client.sim.stop()
    old = SimulatedClient(sim=client.sim.restarted())
    assert old.ask(InitProducerIdRequest(transactional_id="tx", transaction_timeout_ms=1), version).producer_epoch == 3


@for_each("version", versions_of("init_producer_id"))
@for_each(
    "fields, code",
    [
        ({"transactional_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"transactional_id": "tx", "transaction_timeout_ms": 0}, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        ({"transactional_id": "tx", "transaction_timeout_ms": 900_001}, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
    ],
)
def test_invalid_requests(version: int, fields: dict[str, Any], code: ErrorCode) -> None:
    response = SimulatedClient().ask(InitProducerIdRequest(**fields), version)
    assert (response.error_code, response.producer_id, response.producer_epoch) == (code, -1, -1)


@for_each(
    "version, code",
    [(3, ErrorCode.INVALID_PRODUCER_EPOCH), (4, ErrorCode.PRODUCER_FENCED), (5, ErrorCode.PRODUCER_FENCED)],
)
def test_an_older_producer_is_fenced(version: int, code: ErrorCode) -> None:
    client = SimulatedClient()
    request = InitProducerIdRequest(transactional_id="tx", transaction_timeout_ms=60_000)
    first = client.ask(request, version)
    client.ask(request, version)
    request.producer_id, request.producer_epoch = first.producer_id, first.producer_epoch
    assert client.ask(request, version).error_code == code


@for_each("id, epoch, valid", [(5, -1, False), (-1, 0, False), (5, 0, True), (-1, -1, True)])
def test_id_and_epoch_come_together(id: int, epoch: int, valid: bool) -> None:
    response = SimulatedClient().ask(
        InitProducerIdRequest(transactional_id=None, producer_id=id, producer_epoch=epoch), 3
    )
    assert response.error_code == (0 if valid else ErrorCode.INVALID_REQUEST)


def test_a_store_failure_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    client = SimulatedClient()

    def fail(*_: object) -> None:
        raise StorageFailed("no")

    monkeypatch.setattr(client.sim.store, "commit", fail)
    response = client.ask(InitProducerIdRequest(transactional_id=None), 4)
    assert (response.error_code, response.producer_id) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
