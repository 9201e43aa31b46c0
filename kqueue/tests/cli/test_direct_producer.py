from __future__ import annotations

import kqueue
from kqueue.cli.direct_producer import DirectProducer, needs_direct_producer
from kqueue.cli.formats import RecordToSend
from kqueue.tests.tables import for_each


@for_each(
    "record, needs",
    [
        (RecordToSend(b"v"), False),
        (RecordToSend(None, b"k"), False),
        (RecordToSend(b"", None, (("h", b""),)), False),
        (RecordToSend(None, None), True),
        (RecordToSend(b"v", b"k", (("h", None),)), True),
    ],
)
def test_only_what_kafka_python_refuses_needs_it(record: RecordToSend, needs: bool) -> None:
    assert needs_direct_producer(record) == needs


def test_a_batch_that_is_refused_is_counted() -> None:
    refused: list[int] = []
    with kqueue.Broker(auto_create_topics_enable=False) as broker:
        broker.create_topic("orders", 1)
        producer = DirectProducer(broker.bootstrap, "orders", "none", "all", lambda count, error: refused.append(count))
        assert producer.is_empty
        producer.add(RecordToSend(None, None, (("h", None),)), 0, 5)
        producer.flush()
        assert (producer.is_empty, refused) == (True, [])
        (record,) = broker.topics["orders"].records()
        assert (record.key, record.value, list(record.headers), record.timestamp) == (None, None, [("h", None)], 5)
        for _ in range(2):
            producer.add(RecordToSend(None, None), 7, 5)
        producer.flush()
        producer.close()
    assert refused == [2]
