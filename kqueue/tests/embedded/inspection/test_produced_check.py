from __future__ import annotations

import json
import threading
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka import KafkaProducer

import kqueue
from kqueue.embedded.inspection.produced_check import COMPARED_MAX, LINES_MAX, ExpectedRecords, difference
from kqueue.embedded.inspection.records import Record
from kqueue.tests.steps import steps

VALUES = st.lists(st.sampled_from([b"a", b"b", b"c", None]), max_size=8)


@pytest.fixture
def broker() -> Iterator[kqueue.Broker]:
    with kqueue.Broker() as broker:
        broker.create_topic("orders")
        yield broker


def records(*values: bytes | None) -> list[Record]:
    return [Record("t", 0, offset, None, None, value) for offset, value in enumerate(values)]


def told(
    produced: list[Record], values: list[bytes | None], *, ordered: bool = True, exactly: bool = True
) -> str | None:
    return difference("t", produced, ExpectedRecords.of(values, ordered=ordered, exactly=exactly), ordered=ordered)


def failing(broker: kqueue.Broker, *args: object, **options: object) -> str:
    with pytest.raises(AssertionError) as caught:
        broker.assert_produced("orders", *args, **options)  # type: ignore[arg-type]
    return str(caught.value)


# --- what is right


def test_records_that_are_as_expected_are_returned(broker: kqueue.Broker) -> None:
    with KafkaProducer(bootstrap_servers=broker.bootstrap) as producer:
        for number in range(3):
            producer.send("orders", b"%d" % number, key=b"k%d" % number)
    produced = broker.assert_produced("orders", [b"0", b"1", b"2"])
    assert produced == broker.topics["orders"].records()
    broker.assert_produced("orders", ["0", "1", "2"], keys=["k0", b"k1", "k2"])
    broker.assert_produced("orders", keys=["k0", "k1", "k2"])
    broker.assert_produced("orders", ["2", "0", "1"], ordered=False)
    broker.assert_produced("orders", ["0", "2"], exactly=False)
    broker.assert_produced("orders", ["2", "0"], exactly=False, ordered=False)
    broker.assert_produced("orders", [0, 1, 2], decode=json.loads)
    broker.assert_produced("orders", count=3)
    broker.assert_produced("orders", count=2, exactly=False)
    broker.assert_produced("orders", [], exactly=False)


def test_json_is_compared_as_what_it_means(broker: kqueue.Broker) -> None:
    broker.topics["orders"].produce_all([b'{"id": 1, "tags": ["a", {"b": 2}]}', None, b"[1]"])
    broker.assert_produced("orders", [{"tags": ["a", {"b": 2}], "id": 1}, None, [1]], decode=json.loads)
    broker.assert_produced("orders", [[1], None, {"tags": ["a", {"b": 2}], "id": 1}], decode=json.loads, ordered=False)
    assert "- missing     {'id': 2}" in failing(broker, [{"id": 2}], decode=json.loads, exactly=False)


def test_partitions_have_no_order_among_them(broker: kqueue.Broker) -> None:
    broker.create_topic("wide", 2)
    broker.topics["wide"].produce("b", partition=0)
    broker.topics["wide"].produce_all(["a", "c"], partition=1)
    broker.assert_produced("wide", ["a", "b", "c"])
    broker.assert_produced("wide", ["a", "c"], partition=1)
    with pytest.raises(AssertionError, match=r"wide-1 has 2 records, expected 2: in another order"):
        broker.assert_produced("wide", ["c", "a"], partition=1)
    broker.assert_produced("wide", ["c", "a"], partition=1, ordered=False)
    with pytest.raises(ValueError, match="wide has 2 partitions, which have no order among them"):
        broker.assert_produced("wide", ["a", "b", "c"], ordered=True)


@given(there=VALUES, wanted=VALUES)
def test_check_passes_exactly_when_the_lists_agree(there: list[bytes | None], wanted: list[bytes | None]) -> None:
    rest = list(there)
    contained = all(one in rest and (rest.remove(one) or True) for one in wanted)
    position = iter(there)
    in_order = all(any(one == other for other in position) for one in wanted)
    assert (told(records(*there), wanted) is None) is (there == wanted)
    assert (told(records(*there), wanted, exactly=False) is None) is in_order
    assert (told(records(*there), wanted, ordered=False) is None) is (contained and len(there) == len(wanted))
    assert (told(records(*there), wanted, ordered=False, exactly=False) is None) is contained


# --- what is said when it is wrong


def test_a_difference_in_order_shows_what_is_missing_and_what_is_there_instead(broker: kqueue.Broker) -> None:
    broker.topics["orders"].produce_all(["one", "two", "three", "four", "five", "six"])
    assert failing(broker, ["one", "two", "3", "four", "five", "six", "seven"]).splitlines() == [
        "orders has 6 records, expected 7: 2 missing, 1 too many",
        "      orders-0@0  b'one'",
        "      orders-0@1  b'two'",
        "    - missing     b'3'",
        "    + orders-0@2  b'three'",
        "      orders-0@3  b'four'",
        "      orders-0@4  b'five'",
        "      orders-0@5  b'six'",
        "    - missing     b'seven'",
    ]


def test_records_far_from_a_difference_are_left_out() -> None:
    numbered = records(*(b"%d" % number for number in range(100)))
    text = told(numbered, [b"%d" % number for number in range(100) if number != 50])
    assert text is not None
    assert text.splitlines() == [
        "t has 100 records, expected 99: 1 too many",
        "      ... 48 as expected",
        "      t-0@48  b'48'",
        "      t-0@49  b'49'",
        "    + t-0@50  b'50'",
        "      t-0@51  b'51'",
        "      t-0@52  b'52'",
        "      ... 47 as expected",
    ]


def test_without_order_the_missing_are_listed_before_the_extra() -> None:
    text = told(records(b"a", b"a", b"b"), [b"b", b"c", b"a"], ordered=False)
    assert text is not None
    assert text.splitlines() == [
        "t has 3 records, expected 3: 1 missing, 1 too many",
        "    - missing  b'c'",
        "    + t-0@1    b'a'",
    ]


def test_keys_and_values_are_shown_together(broker: kqueue.Broker) -> None:
    broker.topics["orders"].produce("v", key="k")
    text = failing(broker, ["v"], keys=["other"])
    assert "- missing     key b'other', value b'v'" in text
    assert "+ orders-0@0  key b'k', value b'v'" in text
    assert "- missing     b'other'" in failing(broker, keys=["other"])


def test_counts_show_what_is_there(broker: kqueue.Broker) -> None:
    assert failing(broker, count=1) == "orders has 0 records, expected 1"
    broker.topics["orders"].produce("v", key="k")
    assert (
        failing(broker, count=2, exactly=False)
        == "orders has 1 record, expected at least 2\n      <orders-0@0 key=b'k' value=b'v'>"
    )


def test_a_message_stays_short_however_much_there_is() -> None:
    many = records(*(b"%d" % number for number in range(5000)))
    for text in (
        told(many, []),
        told([], [b"%d" % number for number in range(5000)]),
        told(many, [b"x%d" % number for number in range(5000)]),
        told(many, [b"x"] * 5000, ordered=False),
        told(records(bytes(10_000)), [b""]),
    ):
        assert text is not None
        assert len(text.splitlines()) <= LINES_MAX + 2
        assert len(text) < 6000
    assert COMPARED_MAX < 5000 * 5000
    text = told(many, [b"0", b"1", *(b"x%d" % number for number in range(4998))])
    assert text is not None
    assert text.splitlines()[1:] == [
        "      ... 2 as expected",
        "    - expected  b'x0'",
        "    + t-0@2     b'2'",
        "      ... and others",
    ]


def test_difference_among_many_equal_records_is_found_fast() -> None:
    text = told(records(*[b"x"] * 20_000, b"y", *[b"x"] * 20_000), [b"x"] * 40_000)
    assert text is not None
    assert text.splitlines()[1:] == [
        "      ... 19998 as expected",
        "      t-0@19998  b'x'",
        "      t-0@19999  b'x'",
        "    + t-0@20000  b'y'",
        "      t-0@20001  b'x'",
        "      t-0@20002  b'x'",
        "      ... 19998 as expected",
    ]

    def cost(count: int) -> int:
        repeated = records(*[b"x"] * count, b"y", *[b"x"] * count)
        return steps(lambda: told(repeated, [b"x"] * (2 * count)))

    assert cost(1000) < 2.1 * cost(500)


def test_a_wrong_topic_is_told_with_the_nearest(broker: kqueue.Broker) -> None:
    with pytest.raises(AssertionError, match="there is no topic 'ordres'; did you mean 'orders'"):
        broker.assert_produced("ordres", ["x"])


def test_arguments_that_say_nothing_are_refused(broker: kqueue.Broker) -> None:
    with pytest.raises(ValueError, match="say what is expected"):
        broker.assert_produced("orders")
    with pytest.raises(ValueError, match="count= is given alone"):
        broker.assert_produced("orders", ["x"], count=1)
    with pytest.raises(ValueError, match="2 keys for 1 values"):
        broker.assert_produced("orders", ["x"], keys=["a", "b"])
    with pytest.raises(TypeError, match="values=b'x': expected a list"):
        broker.assert_produced("orders", b"x")
    with pytest.raises(TypeError, match="found int: 1"):
        broker.assert_produced("orders", [1])


def test_a_misspelt_argument_is_named_with_the_right_one(broker: kqueue.Broker) -> None:
    with pytest.raises(TypeError, match=r"assert_produced\(\) has no argument 'timeout'; did you mean 'within_s'"):
        broker.assert_produced("orders", ["x"], timeout=5)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="no argument 'key'; did you mean 'keys'"):
        broker.assert_produced("orders", ["x"], key=["a"])  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="values=.*: expected a list"):
        broker.assert_produced("orders", {"coffees": 2})
    with pytest.raises(TypeError, match="count='3': expected a number of records"):
        broker.assert_produced("orders", count="3")  # type: ignore[arg-type]


def test_a_dict_is_compared_with_the_json_of_a_value(broker: kqueue.Broker) -> None:
    broker.topics["orders"].produce_all([b'{"coffees":2,"table":4}', b"[1, 2]", b"plain"])
    broker.assert_produced("orders", [{"table": 4, "coffees": 2}, [1, 2], "plain"])
    with pytest.raises(AssertionError, match="1 missing, 1 too many"):
        broker.assert_produced("orders", [{"table": 4, "coffees": 3}, [1, 2], b"plain"])


# --- headers


def test_a_dict_of_headers_is_among_those_of_each_record(broker: kqueue.Broker) -> None:
    broker.topics["orders"].produce("1", headers={"trace": "a", "shop": "x"})
    broker.topics["orders"].produce("2", headers={"trace": "b", "shop": "x"})
    broker.assert_produced("orders", ["1", "2"], headers={"shop": b"x"})
    broker.assert_produced("orders", ["1", "2"], headers=[{"trace": "a"}, {"trace": "b", "shop": "x"}])
    broker.assert_produced("orders", headers=[{"trace": "a"}, None])
    broker.assert_produced("orders", count=2, headers={"shop": "x"})
    message = failing(broker, ["1", "2"], headers={"trace": "a"})
    assert message == (
        "orders has 2 records, expected 2: 1 missing, 1 too many\n"
        "      orders-0@0  value b'1', headers {'trace': b'a', 'shop': b'x'}\n"
        "    - missing     value b'2', headers {'trace': b'a'}\n"
        "    + orders-0@1  value b'2', headers {'trace': b'b', 'shop': b'x'}"
    )


def test_a_list_of_headers_is_all_of_them_in_order(broker: kqueue.Broker) -> None:
    pairs = [("trace", "a"), ("shop", None), ("trace", "b")]
    broker.topics["orders"].produce("1", headers=pairs)
    broker.assert_produced("orders", ["1"], headers=pairs)
    broker.assert_produced("orders", ["1"], headers=[pairs])
    broker.assert_produced("orders", ["1"], headers={"shop": None, "trace": "b"})
    for others in (pairs[:2], pairs[::-1], []):
        with pytest.raises(AssertionError, match="1 missing"):
            broker.assert_produced("orders", ["1"], headers=others)


def test_without_order_each_expectation_takes_a_record_of_its_own(broker: kqueue.Broker) -> None:
    broker.create_topic("many", 2)
    broker.topics["many"].produce("x", headers={"a": "1", "b": "2"}, partition=0)
    broker.topics["many"].produce("x", headers={"a": "1"}, partition=1)
    broker.assert_produced("many", ["x", "x"], headers=[{"a": "1"}, {"b": "2"}])
    with pytest.raises(AssertionError, match="1 missing, 1 too many"):
        broker.assert_produced("many", ["x", "x"], headers=[{"b": "2"}, {"b": "2"}])


def test_headers_of_another_form_are_refused(broker: kqueue.Broker) -> None:
    with pytest.raises(TypeError, match="headers: expected a dict or a list"):
        broker.assert_produced("orders", ["x"], headers="trace")
    with pytest.raises(TypeError, match="headers: expected a dict or a list"):
        broker.assert_produced("orders", ["x"], headers=[5])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="2 for 1 records"):
        broker.assert_produced("orders", ["x"], headers=[{}, {}])
    with pytest.raises(ValueError, match="how many records"):
        broker.assert_produced("orders", headers={"a": "1"})


# --- transactions


def test_records_of_aborted_and_open_transactions_are_left_out(broker: kqueue.Broker) -> None:
    def produce(value: bytes) -> None:
        producer.begin_transaction()
        producer.send("orders", value)
        producer.flush()

    producer = KafkaProducer(bootstrap_servers=broker.bootstrap, transactional_id="shop")
    producer.init_transactions()
    produce(b"committed")
    producer.commit_transaction()
    produce(b"aborted")
    producer.abort_transaction()
    broker.assert_produced("orders", [b"committed"])
    produce(b"open")
    broker.topics["orders"].produce("behind it")
    broker.assert_produced("orders", [b"committed"])
    everything = [b"committed", b"aborted", b"open", b"behind it"]
    broker.assert_produced("orders", everything, read_committed=False)
    assert [one.value for one in broker.topics["orders"].records(read_committed=False)] == everything
    assert "(3 records of open or aborted transactions left out; read_committed=False" in failing(broker, everything)
    producer.commit_transaction()
    broker.assert_produced("orders", [b"committed", b"open", b"behind it"])
    producer.close()
    assert [one.value for one in broker.topics["orders"].scan()] == [b"committed", b"open", b"behind it"]


# --- waiting


def test_check_waits_for_records_to_come(broker: kqueue.Broker) -> None:
    looked = threading.Event()

    def produce() -> None:
        assert looked.wait(60)
        broker.topics["orders"].produce("1")
        broker.topics["orders"].produce("2")

    def decode(value: bytes) -> int:
        looked.set()
        return int(value)

    broker.topics["orders"].produce("0")
    thread = threading.Thread(target=produce)
    thread.start()
    produced = broker.assert_produced("orders", [0, 1, 2], decode=decode, within_s=60)
    assert len(produced) == 3
    thread.join()


def test_check_waits_for_a_topic_to_come(broker: kqueue.Broker) -> None:
    failed = failing(broker, ["x"], within_s=0)
    assert "1 missing" in failed
    thread = threading.Timer(0.02, lambda: (broker.create_topic("later"), broker.topics["later"].produce("x")))
    thread.start()
    broker.assert_produced("later", ["x"], within_s=60)
    thread.join()


def test_missing_record_is_reported_with_the_time(broker: kqueue.Broker) -> None:
    broker.topics["orders"].produce("x")
    text = failing(broker, ["x", "y"], within_s=0.05)
    assert text.splitlines()[0] == "orders has 1 record, expected 2: 1 missing (after 0.05 s)"


def test_a_broker_that_stops_meanwhile_ends_the_wait(broker: kqueue.Broker) -> None:
    failed: list[BaseException] = []
    begun = threading.Event()

    def wait() -> None:
        begun.set()
        try:
            broker.assert_produced("orders", ["never"], within_s=30)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    assert begun.wait(60)
    broker.stop()
    thread.join(60)
    assert not thread.is_alive()
    assert isinstance(failed[0], RuntimeError)
