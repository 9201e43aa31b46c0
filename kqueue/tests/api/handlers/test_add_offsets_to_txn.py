from __future__ import annotations

from kqueue.broker.topics.topics import OFFSETS_TOPIC
from kqueue.tests.api.harness import versions_of
from kqueue.tests.api.transaction_client import TransactionClient
from kqueue.tests.tables import for_each
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest


@for_each("version", versions_of("add_offsets_to_txn"))
def test_the_partition_of_the_group_is_added(version: int) -> None:
    client = TransactionClient()

    def ask(epoch: int) -> int:
        request = AddOffsetsToTxnRequest(
            transactional_id="tx", producer_id=client.producer_id, producer_epoch=epoch, group_id="g"
        )
        code: int = client.ask(request, version).error_code
        return code

    assert ask(client.epoch) == ErrorCode.NONE
    broker = client.sim.broker
    assert broker.coordinators.transactions.describe("tx").partitions == {
        (OFFSETS_TOPIC, broker.coordinators.groups.partition_of("g"))
    }
    assert client.end().error_code == ErrorCode.NONE  # no offset was committed: the topic does not exist
    fenced = ErrorCode.PRODUCER_FENCED if version >= 2 else ErrorCode.INVALID_PRODUCER_EPOCH
    assert ask(client.epoch - 1) == fenced
