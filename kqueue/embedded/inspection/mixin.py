"""The part of `kqueue.Broker` that looks inside."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from kqueue.app import Server
    from kqueue.embedded.inspection.groups import Groups
    from kqueue.embedded.inspection.records import Record
    from kqueue.embedded.inspection.topics import Topics

T = TypeVar("T")
WAIT_S = 10.0
"""How long the `wait_` methods wait unless `within_s` says otherwise."""


class InspectionMixin(ABC):
    """What a broker in this process shows of itself. Every method may be called from any thread,
    and waits for the broker's own.
    """

    _server: Server

    @abstractmethod
    def _call(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T: ...

    def _ask(self, work: Callable[[Server], Coroutine[Any, Any, T]]) -> T:
        return self._call(lambda: work(self._server))

    @cached_property
    def topics(self) -> Topics:
        """The topics by name, a mapping: ``broker.topics["orders"].records()``, ``"orders" in
        broker.topics``, ``list(broker.topics)``.

        Always as they are now. The broker's own topics (``__consumer_offsets``) are found by name,
        and left out of lists and counts.
        """
        from kqueue.embedded.inspection.topics import Topics

        return Topics(self._ask)

    @cached_property
    def groups(self) -> Groups:
        """The consumer groups by name, a mapping: ``broker.groups["mail"].offsets == {"orders": {0:
        3}}``. Always as they are now.
        """
        from kqueue.embedded.inspection.groups import Groups

        return Groups(self._ask)

    def assert_produced(
        self,
        topic: str,
        values: Iterable[Any] | None = None,
        *,
        keys: Iterable[bytes | str | None] | None = None,
        count: int | None = None,
        partition: int | None = None,
        ordered: bool | None = None,
        exactly: bool = True,
        decode: Callable[[bytes], Any] | None = None,
        read_committed: bool = False,
        within_s: float = 0.0,
    ) -> list[Record]:
        """Assert what stands in a topic: ``broker.assert_produced("orders", [b"two coffees", b"one
        tea"])``.

        Args:
            values: what the records' values must be; text counts as UTF-8, None is a null value (a tombstone). With `decode` they are
                what that makes of a value: ``assert_produced("orders", [{"id": 1}], decode=json.loads)``.
            keys: the same for the keys, by themselves or one for each of `values`.
            count: only how many records there must be, in place of both.
            partition: look at this one alone; None: at all.
            ordered: they must come in this order. None: yes, but for a topic of several partitions, which have no order among them.
            exactly: and no other records; False: others may stand before, between and after.
            read_committed: leave out what a transaction has not committed.
            within_s: seconds to wait for it to become true; 0 looks once.
        Returns: the records that were found, all of them, to assert more.
        Raises: AssertionError: the message shows what is missing and what is there instead. ValueError: arguments that say nothing, or
        contradict each other. RuntimeError: `within_s` on a thread that runs an event loop; there is `wait_produced` for coroutines.
        """
        __tracebackhide__ = True
        from kqueue.embedded.inspection.broker_calls import poll_until_true
        from kqueue.embedded.inspection.produced_check import ExpectedRecords, ProducedCheck

        expected = ExpectedRecords.of(values, keys, count, decode, ordered=ordered, exactly=exactly)
        check = ProducedCheck(self.topics, topic, expected, partition, read_committed=read_committed)
        poll_until_true(check.look, within_s, "await broker.wait_produced(...)")
        return check.found

    async def wait_produced(
        self,
        topic: str,
        values: Iterable[Any] | None = None,
        *,
        keys: Iterable[bytes | str | None] | None = None,
        count: int | None = None,
        partition: int | None = None,
        ordered: bool | None = None,
        exactly: bool = True,
        decode: Callable[[bytes], Any] | None = None,
        read_committed: bool = False,
        within_s: float = WAIT_S,
    ) -> list[Record]:
        """`assert_produced` for coroutines: ``await broker.wait_produced("orders", [b"two
        coffees"])``.

        Clients on the same event loop go on meanwhile. Arguments, result and errors are those of
        `assert_produced`; only `within_s` has another default.
        """
        __tracebackhide__ = True
        from kqueue.embedded.inspection.broker_calls import poll_until_true_async
        from kqueue.embedded.inspection.produced_check import ExpectedRecords, ProducedCheck

        expected = ExpectedRecords.of(values, keys, count, decode, ordered=ordered, exactly=exactly)
        check = ProducedCheck(self.topics, topic, expected, partition, read_committed=read_committed)
        await poll_until_true_async(check.look, within_s)
        return check.found

    def assert_consumed(
        self, topic: str, *, group: str, upto: int | Mapping[int, int] | None = None, within_s: float = 0.0
    ) -> None:
        """Assert that a group has consumed a topic, as its committed offsets tell:
        ``broker.assert_consumed("orders", group="mail")``.

        Args:
            upto: the offset that must be committed, or passed: partition -> offset, or a number where the topic has one partition.
                None: everything that is in the topic at this moment.
            within_s: seconds to wait for it to become true (consumers commit every few seconds by default); 0 looks once.
        Raises: AssertionError: ``group mail has consumed 3 of 5 records of orders: partition 0 at 3 of 5``. ValueError: `upto` does not fit
        the topic. RuntimeError: `within_s` on a thread that runs an event loop; there is `wait_consumed` for coroutines.
        What is counted are offsets: where compaction took records out, or transactions ended, there are fewer records.
        """
        __tracebackhide__ = True
        from kqueue.embedded.inspection.broker_calls import poll_until_true
        from kqueue.embedded.inspection.consumed_check import ConsumedCheck

        poll_until_true(ConsumedCheck(self._ask, topic, group, upto).look, within_s, "await broker.wait_consumed(...)")

    async def wait_consumed(
        self, topic: str, *, group: str, upto: int | Mapping[int, int] | None = None, within_s: float = WAIT_S
    ) -> None:
        """`assert_consumed` for coroutines: ``await broker.wait_consumed("orders", group="mail")``."""
        __tracebackhide__ = True
        from kqueue.embedded.inspection.broker_calls import poll_until_true_async
        from kqueue.embedded.inspection.consumed_check import ConsumedCheck

        await poll_until_true_async(ConsumedCheck(self._ask, topic, group, upto).look, within_s)

    def snapshot(self, folder: str | os.PathLike[str]) -> None:
        """Copy all data of the running broker, records and metadata as of one moment, into
        `folder`, which is made or must be empty.

        What it holds is a data folder in Kafka's format, as after a clean stop:
        `Broker(snapshot=folder)` starts from a copy of it, and `Broker(path=folder)`, `kqueue
        serve`, `kqueue log` and Kafka's own tools take it as it is. Clients are not answered
        meanwhile. Durability: on return it survives a power cut. A failure leaves the folder as it
        was. Raises: SnapshotRefused: the folder is not empty, or not all data can be read.
        StorageFailed.
        """
        self._ask(lambda server: server.snapshot(os.fspath(folder)))
