"""The part of `kqueue.Broker` that shows its topics, records and groups."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, TypedDict, TypeVar, Unpack

from kqueue.embedded.argument_checks import check_folder, check_keywords

if TYPE_CHECKING:
    from kqueue.app import Server
    from kqueue.broker.client_telemetry.receivers import ClientMetricsPush
    from kqueue.embedded.inspection.expected_headers import GivenHeaders
    from kqueue.embedded.inspection.groups import Groups
    from kqueue.embedded.inspection.produced_check import CheckedTopic, ProducedCheck
    from kqueue.embedded.inspection.records import Record
    from kqueue.embedded.inspection.topics import Topics

T = TypeVar("T")
WAIT_S = 10.0
"""The seconds that the `wait_` methods wait unless `within_s` says otherwise."""


class Expectation(TypedDict, total=False):
    """Keyword arguments of `ProducedAssertions.assert_produced` and `wait_produced`."""

    keys: Iterable[bytes | str | None] | None
    headers: GivenHeaders | None
    count: int | None
    partition: int | None
    ordered: bool | None
    exactly: bool
    decode: Callable[[bytes], Any] | None
    read_committed: bool


EXPECTATIONS = ("values", *Expectation.__annotations__, "within_s")
MEANT_EXPECTATIONS = {
    "timeout": "within_s",
    "timeout_s": "within_s",
    "value": "values",
    "isolation_level": "read_committed",
}
"""The names that other test kits give the arguments of `assert_produced`."""


class ProducedAssertions(ABC):
    """Asserts which records the topics of a broker, or of a cluster, have."""

    _NAME: ClassVar[str]
    """The variable's name in examples."""

    @abstractmethod
    def _topic_to_read(self, name: str) -> CheckedTopic:
        """Return a topic as consumers read it. Raises: NoSuchName (a KeyError)."""

    def assert_produced(
        self,
        topic: str,
        values: Iterable[Any] | None = None,
        *,
        within_s: float = 0.0,
        **expected: Unpack[Expectation],
    ) -> list[Record]:
        """Assert which records a topic has: ``broker.assert_produced("orders", [b"two coffees",
        b"one tea"])``.

        Args:
            values: the expected values; text counts as UTF-8, None is a null value (a tombstone).
                A dict or a list is compared with a value's JSON. With `decode`, what it returns for
                a value: ``assert_produced("orders", [order], decode=Order.from_bytes)``.
            keys: the expected keys: alone, or one for each of `values`.
            headers: those of each record: a dict, which are among its headers, or a list of (name,
                value) pairs, which are all of them, in this order. Or a list with a dict, a list of
                pairs or None (any headers) for each record.
            count: only the expected number of records, in place of values and keys.
            partition: check this one alone; None: all of them.
            ordered: whether the order counts. None: yes, except for a topic of several partitions,
                whose records have no common order.
            exactly: False: other records may precede, follow, or be in between. Default True.
            decode: called with each value (bytes) before the comparison.
            read_committed: leave out the records of aborted transactions, and those from the start
                of the first open one on, as consumers with this isolation level do. Default True.
            within_s: seconds to wait for the assertion to hold; 0 checks once.
        Returns: all records that were read, for more assertions.
        Raises:
            AssertionError: the message shows what is missing and what was found instead.
            ValueError: the arguments are empty or contradict each other. TypeError: one is of
                another kind.
            RuntimeError: `within_s` on a thread that runs an event loop; use `wait_produced`.
        """
        __tracebackhide__ = True
        from kqueue.embedded.inspection.broker_calls import poll_until_true

        check = self._produced_check(topic, values, **expected)
        poll_until_true(check.look, within_s, f"await {self._NAME}.wait_produced(...)")
        return check.records

    async def wait_produced(
        self,
        topic: str,
        values: Iterable[Any] | None = None,
        *,
        within_s: float = WAIT_S,
        **expected: Unpack[Expectation],
    ) -> list[Record]:
        """`assert_produced` for coroutines: ``await broker.wait_produced("orders", [b"two
        coffees"])``.

        Clients on the same event loop are not blocked. Arguments, result and errors are those of
        `assert_produced`; only the default of `within_s` differs.
        """
        __tracebackhide__ = True
        from kqueue.embedded.inspection.broker_calls import poll_until_true_async

        check = self._produced_check(topic, values, **expected)
        await poll_until_true_async(check.look, within_s)
        return check.records

    def _produced_check(
        self,
        topic: str,
        values: Iterable[Any] | None,
        partition: int | None = None,
        read_committed: bool = True,
        **expected: Any,
    ) -> ProducedCheck:
        check_keywords("assert_produced", expected, EXPECTATIONS, MEANT_EXPECTATIONS)
        from kqueue.embedded.inspection.produced_check import ExpectedRecords, ProducedCheck

        records = ExpectedRecords.of(values, **expected)
        return ProducedCheck(lambda: self._topic_to_read(topic), records, partition, read_committed=read_committed)


class InspectionMixin(ProducedAssertions):
    """Reads the state of a broker in this process, and asserts it.

    Thread: every method may be called from any thread, and waits for the broker's own.
    """

    _NAME = "broker"
    _server: Server

    @abstractmethod
    def _call(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T: ...

    def _topic_to_read(self, name: str) -> CheckedTopic:
        return self.topics[name]

    def _ask(self, work: Callable[[Server], Coroutine[Any, Any, T]]) -> T:
        return self._call(lambda: work(self._server))

    @cached_property
    def topics(self) -> Topics:
        """The topics by name, a mapping: ``broker.topics["orders"].records()``, ``"orders" in
        broker.topics``, ``list(broker.topics)``.

        It always shows the present state. The broker's own topics (``__consumer_offsets``) can be
        looked up by name, but are not listed or counted.
        """
        from kqueue.embedded.inspection.topics import Topics

        return Topics(self._ask)

    @cached_property
    def groups(self) -> Groups:
        """The groups by name, a mapping: ``broker.groups["mail"].offsets == {"orders": {0: 3}}``;
        of consumers, share and streams groups. It always shows the present state.
        """
        from kqueue.embedded.inspection.groups import Groups

        return Groups(self._ask)

    @property
    def client_metrics(self) -> list[ClientMetricsPush]:
        """The metrics that clients pushed (KIP-714), oldest first; the last 10,000 pushes are kept.

        The broker needs the setting ``kqueue_client_metrics="memory"``, and a subscription: a
        client metrics resource with ``metrics=*``. Raises RuntimeError: it has another receiver, or
        none.
        """
        from kqueue.broker.client_telemetry.receivers import MemoryReceiver

        async def look(server: Server) -> list[ClientMetricsPush]:
            receiver = server.broker.telemetry.receiver
            if not isinstance(receiver, MemoryReceiver):
                raise RuntimeError('no client metrics are kept: start the broker with kqueue_client_metrics="memory"')
            return receiver.pushes

        return self._ask(look)

    def assert_consumed(
        self, topic: str, *, group: str, upto: int | Mapping[int, int] | None = None, within_s: float = 0.0
    ) -> None:
        """Assert that a group has consumed a topic, by its committed offsets:
        ``broker.assert_consumed("orders", group="mail")``.

        Offsets are counted, not records: after compaction or transactions there are fewer records.

        Args:
            upto: the offset that must be committed or passed: partition -> offset, or a number
                where the topic has one partition. None: the present end of the topic.
            within_s: seconds to wait for the assertion to hold (consumers commit every few seconds
                by default); 0 checks once.
        Raises:
            AssertionError: ``group mail has consumed 3 of 5 records of orders: partition 0 at 3 of
                5``.
            ValueError: `upto` does not fit the topic.
            RuntimeError: `within_s` on a thread that runs an event loop; use `wait_consumed`.
        """
        __tracebackhide__ = True
        from kqueue.embedded.inspection.broker_calls import poll_until_true
        from kqueue.embedded.inspection.consumed_check import ConsumedCheck

        poll_until_true(ConsumedCheck(self._ask, topic, group, upto).look, within_s, "await broker.wait_consumed(...)")

    async def wait_consumed(
        self, topic: str, *, group: str, upto: int | Mapping[int, int] | None = None, within_s: float = WAIT_S
    ) -> None:
        """`assert_consumed` for coroutines: ``await broker.wait_consumed("orders", group="g")``."""
        __tracebackhide__ = True
        from kqueue.embedded.inspection.broker_calls import poll_until_true_async
        from kqueue.embedded.inspection.consumed_check import ConsumedCheck

        await poll_until_true_async(ConsumedCheck(self._ask, topic, group, upto).look, within_s)

    def snapshot(self, folder: str | os.PathLike[str]) -> None:
        """Copy all data of the running broker, records and metadata as of one moment, into
        `folder`, which is created or must be empty.

        The result is a data folder in Kafka's format, as after a clean stop.
        `Broker(snapshot=folder)` starts from a copy of it. `Broker(path=folder)`, `kqueue serve`,
        `kqueue log` and Kafka's own tools use it directly. Clients are served meanwhile; a log that
        is compacted, or loses segments, during the copy may be of a later moment.

        Durability: on return the copy survives a power cut. A failure leaves the folder unchanged.
        Raises: SnapshotRefused: the folder is not empty, or not all data can be read.
        StorageFailed.
        """
        check_folder("folder", folder)
        self._ask(lambda server: server.snapshot(os.fspath(folder)))
