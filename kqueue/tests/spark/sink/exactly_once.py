"""Runs exactly-once batches as Spark does, and interrupts them at any call to a broker."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from kqueue.client import Client, ClientOptions
from kqueue.client.transaction_calls import TransactionCalls
from kqueue.spark.sink import batch_commit
from kqueue.spark.sink.journal import StagedBatch
from kqueue.spark.sink.options import SinkOptions
from kqueue.spark.sink.write_task import BatchIdentity, stage_rows
from kqueue.tests.spark.sink.helpers import rows_of

QUERY = "3f1c"
CALLS = ("metadata", "offsets", "fetch", "init_producer", "produce", "create_topics", "delete_records")
TRANSACTION_CALLS = ("init", "add_partitions", "end", "describe", "find")
ROWS = [f"row {number:03}" for number in range(120)]


class Killed(BaseException):
    """As if the process were gone: nobody catches it."""


class WatchedClient(Client):
    """Tells before and after each call, such as ``watch("produce", True)``."""

    watch: Callable[[str, bool], None]

    def clone(self) -> WatchedClient:
        return watched(self.watch)(self.options)  # type: ignore[return-value]

    def __getattribute__(self, name: str) -> Any:
        attribute = super().__getattribute__(name)
        if name == "transactions":
            return WatchedTransactions(attribute, self.watch)
        return watched_call(attribute, name, self.watch) if name in CALLS else attribute


class WatchedTransactions:
    """The calls about transactions of a `WatchedClient`."""

    def __init__(self, calls: TransactionCalls, watch: Callable[[str, bool], None]) -> None:
        self._calls = calls
        self._watch = watch

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._calls, name)
        return watched_call(attribute, f"transactions.{name}", self._watch) if name in TRANSACTION_CALLS else attribute


def watched_call(call: Callable[..., Any], name: str, watch: Callable[[str, bool], None]) -> Callable[..., Any]:
    def watched(*arguments: Any, **keywords: Any) -> Any:
        watch(name, True)
        result = call(*arguments, **keywords)
        watch(name, False)
        return result

    return watched


def watched(watch: Callable[[str, bool], None]) -> Callable[[ClientOptions], Client]:
    def connect(options: ClientOptions) -> Client:
        client = WatchedClient(options)
        client.watch = watch
        return client

    return connect


def run_batch(
    options: SinkOptions,
    batch_id: int,
    tasks: Sequence[Sequence[str]],
    connect: Callable[[ClientOptions], Client] = Client,
) -> None:
    """Write one micro-batch as Spark does: its tasks, then the commit."""
    staged: list[StagedBatch] | None = []
    transactions = []
    for number, values in enumerate(tasks):
        outcome = stage_rows(
            options, BatchIdentity(QUERY, batch_id, number), [rows_of(values)] if values else [], connect
        )
        transactions += [outcome.transaction] if outcome.transaction is not None else []
        staged = None if outcome.staged is None or staged is None else [*staged, *outcome.staged]
    with connect(options.client) as client:
        batch_commit.commit(client, QUERY, batch_id, staged, transactions, options.topic)


def after_calls(number: int, then: Callable[[], None]) -> Callable[[str, bool], None]:
    """A watch that does something at one moment, before or after a call: the moments are numbered
    from 0 on.
    """
    moments = itertools.count()

    def watch(name: str, before: bool) -> None:
        if next(moments) == number:
            then()

    return watch


def die() -> None:
    raise Killed
