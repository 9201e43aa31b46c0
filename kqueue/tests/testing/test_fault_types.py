"""Adding, counting, combining and cancelling faults; `test_fault_injection` has their effects."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import kqueue
from kqueue.testing import faults
from kqueue.testing.fault_injection import Faults
from kqueue.testing.fault_types import FaultFilter
from kqueue.tests.tables import for_each
from kqueue.tests.testing.raw import Raw, fetch, produce
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.offset_commit import OffsetCommitRequestPartition, OffsetCommitRequestTopic

T = ("t", 0)


@pytest.fixture(scope="module")
def broker() -> Iterator[kqueue.Broker]:
    with kqueue.Broker(kqueue_stop_timeout_ms=60_000) as broker:
        broker.create_topic("t", retention_ms=-1)  # its records are old
        yield broker


@pytest.fixture
def made(broker: kqueue.Broker) -> Iterator[Faults]:
    broker.requests.clear()
    with faults(broker) as made:
        yield made


@pytest.fixture
def raw(broker: kqueue.Broker) -> Iterator[Raw]:
    with Raw(broker.bootstrap) as raw:
        yield raw


def code(raw: Raw) -> int:
    """Return the error code of a Produce of one record."""
    error_code: int = raw.ask("Produce", 9, produce(T)).responses[0].partition_responses[0].error_code
    return error_code


def is_whole(broker: kqueue.Broker) -> bool:
    hooks = broker._hooks
    return hooks.requests == () and hooks.storage.hooks == ()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda made: made.fail("Prodduce"), "no API 'Prodduce'; did you mean 'Produce'"),
        (
            lambda made: made.fail("Produce", "NOT_LEADER"),
            "no error 'NOT_LEADER'; did you mean 'NOT_LEADER_OR_FOLLOWER'",
        ),
        (lambda made: made.fail("Produce", "none"), "NONE is not an error"),
        (lambda made: made.fail("Heartbeat", topic="t"), "Heartbeat requests name no topics"),
        (lambda made: made.fail("Produce", times=0), "times=0"),
        (lambda made: made.fail("Produce", after=-1), "after=-1"),
        (lambda made: made.fail("Produce", probability=0), "probability=0"),
        (lambda made: made.delay("Produce"), "expected a delay above 0"),
        (lambda made: made.delay("Produce", ms=-1), "expected a delay above 0"),
        (lambda made: made.disk_full(free_bytes=-1), "free_bytes=-1"),
        (lambda made: made.script([{"api": "Produce"}]), "expected one of fail, delay"),
        (lambda made: made.script([{"fail": "Produce", "delay": "Fetch"}]), "found fail, delay"),
    ],
)
def test_invalid_filters_are_refused_at_once(made: Faults, make: object, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make(made)  # type: ignore[operator]


def test_names_ignore_case_and_errors_may_be_codes(made: Faults, raw: Raw) -> None:
    made.fail("produce", "not_leader_or_follower")
    made.fail("PRODUCE", ErrorCode.CORRUPT_MESSAGE)
    assert [code(raw), code(raw), code(raw)] == [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.CORRUPT_MESSAGE, 0]


def test_faults_are_added_inside_their_with(broker: kqueue.Broker) -> None:
    made = faults(broker)
    with pytest.raises(RuntimeError, match="inside"):
        made.fail("Produce")
    with made, pytest.raises(RuntimeError, match="already in use"):
        made.__enter__()
    assert is_whole(broker)


def test_a_list_of_faults_is_a_script(made: Faults, raw: Raw, broker: kqueue.Broker) -> None:
    first, second, third = made.script(
        [
            {"fail": "Produce", "times": 2},
            {"fail": "Produce", "error": "CORRUPT_MESSAGE"},
            {"delay": "Produce", "ms": 5, "times": 1},
        ]
    )
    assert [code(raw) for _ in range(5)] == [6, 6, 2, 0, 0]
    assert (first.count, second.count, third.count) == (2, 1, 1)
    assert [fired.fault for fired in made.fired] == [first.what, first.what, second.what, third.what]
    assert (
        repr(made)
        .splitlines()[1]
        .endswith(f"fail Produce with NOT_LEADER_OR_FOLLOWER -> Produce v9 of raw ({_address(raw)}) about t")
    )


def _address(raw: Raw) -> str:
    host, port = raw.sock.getsockname()
    return f"{host}:{port}"


def test_a_request_has_one_final_outcome(made: Faults, broker: kqueue.Broker) -> None:
    """A dropped reply is that of a request which was carried out; the faults behind it are for the
    requests behind it.
    """
    before = len(list(broker.topics["t"].records()))
    script = made.script(
        [
            {"drop_reply": "Produce"},
            {"disconnect": "Produce"},
            {"delay": "Produce", "ms": 5, "times": 1},
            {"fail": "Produce"},
        ]
    )
    for after in (1, 1):
        with Raw(broker.bootstrap) as raw, pytest.raises(EOFError):
            code(raw)
        assert len(list(broker.topics["t"].records())) == before + after
    assert [fault.count for fault in script] == [1, 1, 1, 0]
    with Raw(broker.bootstrap) as raw:
        assert [code(raw), code(raw)] == [6, 0]


def test_requests_before_after_pass(made: Faults, raw: Raw) -> None:
    made.fail("Produce", after=2, times=1)
    assert [code(raw) for _ in range(4)] == [0, 0, 6, 0]


def test_other_requests_are_not_affected(made: Faults, broker: kqueue.Broker) -> None:
    by_client = made.fail("Produce", client_id="other", times=None)
    by_topic = made.fail("Produce", topic="u", times=None)
    by_partition = made.fail("Produce", partition=1, times=None)
    by_api = made.fail("Heartbeat", times=None)
    with Raw(broker.bootstrap, "me") as me, Raw(broker.bootstrap, "other") as other:
        assert (code(me), code(other)) == (0, 6)
    assert (by_client.count, by_topic.count, by_partition.count, by_api.count) == (1, 0, 0, 0)


def test_a_fault_can_apply_to_all_apis(made: Faults, raw: Raw) -> None:
    fault = made.fail("*", "UNKNOWN_SERVER_ERROR", times=2)
    assert code(raw) == ErrorCode.UNKNOWN_SERVER_ERROR
    assert raw.ask("Heartbeat", 4, group_id="g").error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert fault.count == 2


def test_chance_follows_from_the_seed(broker: kqueue.Broker, raw: Raw) -> None:
    def run(seed: int) -> list[int]:
        with faults(broker, seed) as made:
            made.fail("Produce", times=None, probability=0.5)
            return [code(raw) for _ in range(40)]

    first = run(1)
    assert set(first) == {0, 6}
    assert run(1) == first
    assert run(2) != first


# --- the end


def test_an_exception_cancels_all_faults(broker: kqueue.Broker, raw: Raw) -> None:
    def use() -> None:
        with faults(broker) as made:
            made.fail("*", times=None)
            made.disk_full()
            assert code(raw) == 6
            raise KeyError

    with pytest.raises(KeyError):
        use()
    assert code(raw) == 0
    assert is_whole(broker)


def test_a_fault_is_a_context_manager(made: Faults, raw: Raw) -> None:
    with made.fail("Produce", times=None) as fault:
        assert code(raw) == 6
        assert repr(fault) == "<fail Produce with NOT_LEADER_OR_FOLLOWER: 1 times>"
    assert code(raw) == 0
    assert repr(fault).endswith("1 times, over>")
    fault.cancel()


def test_cancelling_a_delay_releases_its_requests(made: Faults, raw: Raw) -> None:
    with made.delay("Produce", seconds=3600) as fault:
        raw.send("Produce", 9, produce(T))
        raw.send("Heartbeat", 4, group_id="g")
        fault.wait()
        raw.sock.settimeout(0.05)
        with pytest.raises(TimeoutError):
            raw.sock.recv(1)
        raw.sock.settimeout(60)
    assert raw.receive().responses[0].partition_responses[0].error_code == 0
    assert raw.receive().error_code  # what came after it waited too, and its answer stands behind


def test_each_request_is_delayed_once(made: Faults, raw: Raw) -> None:
    fault = made.delay("Produce", ms=5)
    assert [code(raw), code(raw)] == [0, 0]
    assert fault.count == 2


def test_a_delayed_request_is_executed_after_its_client_disconnected(made: Faults, broker: kqueue.Broker) -> None:
    before = len(list(broker.topics["t"].records()))
    fault = made.delay("Produce", seconds=3600)
    with Raw(broker.bootstrap) as raw:
        raw.send("Produce", 9, produce(T))
        fault.wait()
    assert len(list(broker.topics["t"].records())) == before
    broker.clock.advance(hours=1)
    assert len(list(broker.topics["t"].records())) == before + 1


def test_requests_of_one_connection_keep_their_order_through_a_delay(
    made: Faults, broker: kqueue.Broker, raw: Raw
) -> None:
    """Of several that are sent at once the first is held; an idempotent producer would otherwise
    see its sequence broken.
    """
    made.delay("Produce", ms=30, times=1)
    before = len(list(broker.topics["t"].records()))
    for number in range(5):
        raw.send("Produce", 9, produce(T, value=b"%d" % number))
    assert [raw.receive().responses[0].partition_responses[0].base_offset for _ in range(5)] == list(
        range(before, before + 5)
    )
    assert [record.value for record in broker.topics["t"].records()][before:] == [b"0", b"1", b"2", b"3", b"4"]


def test_a_request_without_an_answer_can_be_delayed(made: Faults, broker: kqueue.Broker, raw: Raw) -> None:
    made.delay("Produce", ms=10, times=1)
    before = len(list(broker.topics["t"].records()))
    raw.send("Produce", 9, produce(T, acks=0))
    raw._asked.clear()
    assert raw.ask("Heartbeat", 4, group_id="g").error_code
    assert len(list(broker.topics["t"].records())) == before + 1


def test_a_fetch_that_waits_can_lose_its_reply(made: Faults, raw: Raw, broker: kqueue.Broker) -> None:
    end = len(list(broker.topics["t"].records()))
    fault = made.drop_reply("Fetch")
    raw.send("Fetch", 12, fetch(T, offset=end, max_wait_ms=600_000))
    fault.wait()
    with Raw(broker.bootstrap) as other:
        code(other)
    with pytest.raises(EOFError):
        raw.receive()


def test_a_delayed_request_may_wait_for_its_handler_besides(made: Faults, raw: Raw, broker: kqueue.Broker) -> None:
    end = len(list(broker.topics["t"].records()))
    fault = made.delay("Fetch", ms=5, times=1)
    raw.send("Fetch", 12, fetch(T, offset=end, max_wait_ms=600_000))
    fault.wait()
    with Raw(broker.bootstrap) as other:
        code(other)
    answer = raw.receive()
    assert len(answer.responses[0].partitions[0].records) > 0


# --- a parted network


def test_a_pending_response_waits_for_the_network(made: Faults, raw: Raw, broker: kqueue.Broker) -> None:
    end = len(list(broker.topics["t"].records()))
    raw.send("Fetch", 12, fetch(T, offset=end, max_wait_ms=600_000))
    broker.requests.wait_for("Fetch")
    with Raw(broker.bootstrap, "other") as other, made.partition_network("raw") as parted:
        assert code(other) == 0
        raw.sock.settimeout(0.05)
        with pytest.raises(TimeoutError):
            raw.sock.recv(1)
        raw.sock.settimeout(60)
        assert broker.requests("Fetch")[0].is_answered
        parted.heal()
        assert len(raw.receive().responses[0].partitions[0].records) > 0


def test_a_network_partition_suspends_timeouts(made: Faults, raw: Raw, broker: kqueue.Broker) -> None:
    """Idle and slow-reader timeouts do not count during a network partition."""
    assert code(raw) == 0
    parted = made.partition_network("raw")
    raw.send("Produce", 9, produce(T))
    broker.clock.advance(hours=1)
    parted.heal()
    assert raw.receive().responses[0].partition_responses[0].error_code == 0


# --- restarts


def test_faults_persist_across_a_restart_that_drops_held_requests() -> None:
    with kqueue.Broker(kqueue_stop_timeout_ms=60_000) as broker, faults(broker) as made:
        broker.create_topic("t")
        delayed = made.delay("Produce", seconds=3600)
        with Raw(broker.bootstrap) as raw, Raw(broker.bootstrap, "parted") as parted:
            assert parted.ask("Heartbeat", 4, group_id="g").error_code
            raw.send("Produce", 9, produce(T))
            delayed.wait()
            made.partition_network("parted")
            parted.send("Heartbeat", 4, group_id="g")
            broker.restart()
            for one in (raw, parted):
                with pytest.raises(EOFError):
                    one.receive()
        assert list(broker.topics["t"].records()) == []
        with Raw(broker.bootstrap) as raw:
            raw.send("Produce", 9, produce(T))
            delayed.wait(2)
            delayed.cancel()
            assert raw.receive().responses[0].partition_responses[0].error_code == 0
        broker.stop()
        made.cancel()  # of a broker that does not run


def test_faults_may_be_added_before_the_start() -> None:
    broker = kqueue.Broker()
    with faults(broker) as made:
        made.partition_network("far")
        made.fail("Heartbeat", "NOT_COORDINATOR")
        with broker, Raw(broker.bootstrap) as raw:
            assert raw.ask("Heartbeat", 4, group_id="g").error_code == ErrorCode.NOT_COORDINATOR


# --- what else may go wrong


def test_an_error_in_a_hook_affects_no_request(
    broker: kqueue.Broker, raw: Raw, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(asked: object) -> None:
        raise ZeroDivisionError("of a hook")

    broker._hooks.add(broken, lambda kind, path, size: None)
    try:
        with caplog.at_level(logging.ERROR):
            assert code(raw) == 0
    finally:
        broker._hooks.requests, broker._hooks.storage.hooks = (), ()
    assert "a hook failed at Produce" in caplog.text
    assert "ZeroDivisionError: of a hook" in caplog.text


def test_waiting_for_a_fault_times_out(made: Faults) -> None:
    with pytest.raises(
        TimeoutError,
        match="fail Produce with NOT_LEADER_OR_FOLLOWER: expected to be applied 1 times within 0.01 s, found 0",
    ):
        made.fail("Produce").wait(timeout_s=0.01)


def test_threads_may_add_and_cancel_faults_during_requests(made: Faults, raw: Raw) -> None:
    stop = threading.Event()

    def disturb() -> None:
        while not stop.is_set():
            with made.fail("Produce", times=None), made.delay("Heartbeat", ms=1):
                pass

    threads = [threading.Thread(target=disturb) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        assert {code(raw) for _ in range(200)} <= {0, 6}
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    made.cancel()
    assert code(raw) == 0


def test_two_sets_of_faults_share_a_broker(broker: kqueue.Broker, made: Faults, raw: Raw) -> None:
    made.fail("Produce", "CORRUPT_MESSAGE", after=1)
    with faults(broker) as other:
        other.fail("Produce")
        assert [code(raw), code(raw), code(raw)] == [6, 2, 0]


def test_a_full_disk_accepts_free_bytes_first() -> None:
    with kqueue.Broker() as broker, faults(broker) as made:
        broker.create_topic("t")
        broker.create_topic("u")
        with Raw(broker.bootstrap) as raw:
            assert code(raw) == 0  # now its folder is there, which takes some bytes
            fault = made.disk_full("t", free_bytes=100)
            assert code(raw) == 0
            assert fault.count == 0
            answer = raw.ask("Produce", 9, produce(T)).responses[0].partition_responses[0]
            assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
            assert (
                answer.error_message == "can't write to t-0/00000000000000000000.log: ENOSPC, No space left on device"
            )
            assert raw.ask("Produce", 9, produce(("u", 0))).responses[0].partition_responses[0].error_code == 0
            made.disk_full()
            answer = raw.ask("Produce", 9, produce(("u", 0))).responses[0].partition_responses[0]
            assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR


@pytest.mark.parametrize("on_disk", [False, True], ids=["memory", "disk"])
@pytest.mark.parametrize("seed", range(6))
def test_a_write_may_tear_anywhere(seed: int, on_disk: bool, tmp_path: Path) -> None:
    """What was answered is there after the restart, nothing of the torn batch is, and the log goes
    on behind.
    """
    with kqueue.Broker(tmp_path if on_disk else None) as broker, faults(broker, seed) as made:
        broker.create_topic("t")
        with Raw(broker.bootstrap) as raw:
            made.torn_write("t", after=2)
            assert [code(raw) for _ in range(4)] == [0, 0, 56, 56]
        assert [fired.path for fired in made.fired] == ["t-0/00000000000000000000.log"]
        broker.restart()
        with Raw(broker.bootstrap) as raw:
            assert code(raw) == 0
        assert [(record.offset, record.value) for record in broker.topics["t"].records()] == [
            (0, b"a"),
            (1, b"a"),
            (2, b"a"),
        ]


@for_each("fault", ["torn_write", "disk_full"])
def test_an_unwritten_commit_is_not_confirmed(fault: str) -> None:
    asked = [
        OffsetCommitRequestTopic(
            name="t", partitions=[OffsetCommitRequestPartition(partition_index=0, committed_offset=7)]
        )
    ]
    with kqueue.Broker() as broker, faults(broker) as made:
        broker.create_topic("t")

        def commit(raw: Raw) -> int:
            error_code: int = raw.ask("OffsetCommit", 8, group_id="g", topics=asked).topics[0].partitions[0].error_code
            return error_code

        with Raw(broker.bootstrap) as raw:
            made.script([{fault: "__consumer_offsets"}])
            assert commit(raw) != 0
            made.cancel()
            broker.restart()
        with Raw(broker.bootstrap) as raw:
            assert broker.groups.get("g") is None
            assert commit(raw) == 0
        assert broker.groups["g"].offsets == {"t": {0: 7}}


def test_the_text_of_a_filter_names_its_fields() -> None:
    assert (
        str(FaultFilter("Fetch", topic="t", partition=1, client_id="c")) == "Fetch topic='t' partition=1 client_id='c'"
    )
