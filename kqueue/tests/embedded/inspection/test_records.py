from __future__ import annotations

import kqueue
from kqueue.embedded.inspection.records import Record, shown
from kqueue.tests.tables import for_each


def test_a_record_names_its_topic_partition_and_offset() -> None:
    record = Record("orders", 0, 17, None, b"table 4", b"two coffees", (("trace", b"1"),))
    assert record.where == "orders-0@17"
    assert repr(record) == "<orders-0@17 key=b'table 4' value=b'two coffees' headers={'trace': b'1'}>"


@for_each("value, text", [(None, "None"), (b"short", "b'short'")])
def test_short_values_are_shown_in_full(value: object, text: str) -> None:
    assert shown(value) == text


def test_long_values_are_shortened_with_their_size() -> None:
    assert shown(b"x" * 100).endswith("... (100 bytes)")
    assert len(shown(b"x" * 10_000)) < 100


def test_a_scan_reads_the_offsets_that_were_asked_for() -> None:
    with kqueue.Broker() as broker:
        broker.create_topic("t")
        broker.topics["t"].produce_all([b"%d" % number for number in range(10)])
        assert [record.value for record in broker.topics["t"].scan(start=3, stop=5)] == [b"3", b"4"]
