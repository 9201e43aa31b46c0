"""Routes requests to brokers: which broker, when to refresh metadata, when to retry.

A call is either about partitions and goes to their leaders in parallel (`LeaderCall`), or one
request to one broker (`NodeCall`). `retry_policy.RETRY_ACTIONS` maps each error to an action.
"""

from __future__ import annotations

import contextlib
import functools
import random
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from kqueue.base.addresses import Address
from kqueue.client.calls.contract import LeaderCall, NodeCall
from kqueue.client.calls.find_coordinator import CoordinatorKey, FindCoordinator
from kqueue.client.calls.metadata import GetMetadata
from kqueue.client.connection import Connection, ConnectionPool
from kqueue.client.deadline import Deadline
from kqueue.client.errors import BadAnswer, ClientError, ConnectionLost, DeadlinePassed, FetchOutOfRange
from kqueue.client.metadata import ClusterMetadata, MetadataCache
from kqueue.client.options import ClientOptions
from kqueue.client.retry_policy import RetryAction, RetryBudget, bad_answer, response_error, retry_action
from kqueue.client.topic_partition import TopicPartition
from kqueue.wire.apis import Api
from kqueue.wire.error_codes import ErrorCode

A = TypeVar("A")
R = TypeVar("R")


STALE_LEADER_ACTIONS = {RetryAction.REFRESH_METADATA, RetryAction.WAIT_FOR_TOPIC, RetryAction.RETRY_IF_REPEATABLE}


class Router:
    """The connections and the metadata cache of one client; it runs one call at a time.

    Thread: one at a time; `call` refuses a second.
    """

    def __init__(self, options: ClientOptions) -> None:
        self.options = options
        self.cluster = MetadataCache()
        self.connections = ConnectionPool(options)
        self._coordinators: dict[tuple[CoordinatorKey, str], Address] = {}
        self._busy = threading.Lock()

    @contextlib.contextmanager
    def call(self, timeout_ms: int | None) -> Iterator[Deadline]:
        """Begin a call of the client, and yield its deadline; None: after `options.timeout_ms`.

        Raises: RuntimeError: another call is under way.
        """
        if not self._busy.acquire(blocking=False):
            raise RuntimeError(
                "a client is for one thread at a time: another call is under way; make one client per thread"
            )
        try:
            yield Deadline(self.options.timeout_ms if timeout_ms is None else timeout_ms)
        finally:
            self._busy.release()

    def close(self) -> None:
        """Close all connections."""
        self.connections.close()

    # --- one request to one broker

    def send_to_any(self, call: NodeCall[R], deadline: Deadline) -> R:
        """Send to any broker that responds. Raises: ClientError."""
        return self._ask(call, self._any, deadline)

    def send_to_controller(self, call: NodeCall[R], deadline: Deadline) -> R:
        """Send to the controller, or to any broker if there is none. Raises: ClientError.

        The broker changes metadata or forwards the request.
        """

        def find(deadline: Deadline) -> Connection:
            if self.cluster.controller not in self.cluster.brokers:
                self.refresh([], deadline)
            node = self.cluster.brokers.get(self.cluster.controller)
            return self._any(deadline) if node is None else self.connections.to(node.address, deadline)

        def moved() -> None:
            self.cluster.controller = -1

        return self._ask(call, find, deadline, moved)

    def send_to_coordinator(
        self,
        key: str,
        call: NodeCall[R],
        deadline: Deadline,
        kind: CoordinatorKey = CoordinatorKey.GROUP,
        *,
        request_timeout_ms: int | None = None,
    ) -> R:
        """Send to the coordinator of a group or transactional id. Raises: ClientError.

        Args:
            request_timeout_ms: of a request that the coordinator may hold for longer than others;
                None: `options.request_timeout_ms`.
        """

        def find(deadline: Deadline) -> Connection:
            address = self._coordinators.get((kind, key))
            if address is None:
                address = self._once(FindCoordinator(key, kind), self._any(deadline), deadline)
                self._coordinators[kind, key] = address
            return self.connections.to(address, deadline)

        moved = functools.partial(self._coordinators.pop, (kind, key), None)
        return self._ask(call, find, deadline, moved, request_timeout_ms)

    def send_to_node(self, node_id: int, call: NodeCall[R], deadline: Deadline) -> R:
        """Send to the broker with this id. Raises: ClientError: also if the cluster has no such
        broker.
        """

        def find(deadline: Deadline) -> Connection:
            if node_id not in self.cluster.brokers:
                self.refresh([], deadline)
            node = self.cluster.brokers.get(node_id)
            if node is None:
                known = ", ".join(map(str, sorted(self.cluster.brokers)))
                raise ClientError(f"{self._bootstrap}: the cluster has no broker {node_id}, its brokers are {known}")
            return self.connections.to(node.address, deadline)

        return self._ask(call, find, deadline)

    def send_to_all(self, call: NodeCall[R], deadline: Deadline) -> dict[int, R]:
        """Send to each broker of the cluster, one after the other.

        A broker that is down is asked until the cluster has removed it; what it had, others have
        then, so all are asked again. Nobody is left out silently.

        Returns: the results by broker id.
        Raises: ClientError: of a broker that is still listed.
        """
        budget = RetryBudget(self.options, deadline)
        done: dict[int, R] = {}
        asked: set[int] = set()
        while True:
            brokers = self.refresh([], deadline).brokers
            if asked != brokers.keys():
                asked, done = set(brokers), {}
            last = None
            for node in brokers.values():
                try:
                    if node.id not in done:
                        done[node.id] = self._once(call, self.connections.to(node.address, deadline), deadline)
                except ClientError as error:
                    if not budget.allows(error, repeatable=call.repeatable):
                        raise
                    last = error
            if last is None:
                return done
            if not budget.pause():
                raise budget.passed(last) from last

    def refresh(self, names: Sequence[str] | None, deadline: Deadline) -> ClusterMetadata:
        """Request and cache metadata. Raises: ClientError.

        Args:
            names: topics; None: all topics; empty: brokers only.
        """
        metadata = self.send_to_any(GetMetadata(names), deadline)
        self.cluster.update(metadata, names)
        self.connections.keep_only({node.address for node in metadata.brokers.values()})
        return metadata

    def metadata(
        self, names: Sequence[str] | None, deadline: Deadline, missing_ms: float | None = None
    ) -> ClusterMetadata:
        """As `refresh`, but retry topics with an error. Raises: ClientError."""
        budget = RetryBudget(self.options, deadline, missing_ms)
        while True:
            metadata = self.refresh(names, deadline)
            if not metadata.failed or names is None:
                return metadata
            errors = [
                response_error(code, "Metadata", self._bootstrap, about=f"topic {name!r}")
                for name, code in metadata.failed.items()
            ]
            for error, name in zip(errors, metadata.failed, strict=True):
                error.topic = name
            final = next((error for error in errors if not budget.allows(error, repeatable=True)), None)
            if final is not None:
                raise final
            if not budget.pause():
                raise budget.passed(errors[0])

    def wait_for_leaders(self, names: Sequence[str], deadline: Deadline) -> ClusterMetadata:
        """As `metadata` for topics known to exist; return once every partition has a leader.

        Raises: ClientError.
        """
        budget = RetryBudget(self.options, deadline)
        while True:
            metadata = self.metadata(names, deadline, missing_ms=deadline.remaining_ms)
            leaderless = [
                topic_partition
                for topic in metadata.topics.values()
                for topic_partition in topic.topic_partitions
                if self.cluster.leader(topic_partition) is None
            ]
            if not leaderless:
                return metadata
            if not budget.pause():
                raise budget.passed(
                    response_error(ErrorCode.LEADER_NOT_AVAILABLE, "Metadata", self._bootstrap, leaderless[0])
                )

    @property
    def _bootstrap(self) -> str:
        return self.options.bootstrap

    def _any(self, deadline: Deadline) -> Connection:
        def addresses() -> list[Address]:
            known = [node.address for node in self.cluster.brokers.values()]
            random.shuffle(known)
            return [*known, *self.options.addresses]

        return self.connections.to_any(addresses, deadline)

    def _ask(
        self,
        call: NodeCall[R],
        find: Callable[[Deadline], Connection],
        deadline: Deadline,
        moved: Callable[[], object] = lambda: None,
        request_timeout_ms: int | None = None,
    ) -> R:
        budget = RetryBudget(self.options, deadline)
        while True:
            try:
                return self._once(call, find(deadline), deadline, request_timeout_ms)
            except ClientError as error:
                if not budget.allows(error, repeatable=call.repeatable):
                    raise
                if retry_action(error) is not RetryAction.RETRY:
                    moved()
                if not budget.pause():
                    raise budget.passed(error) from error

    def _once(
        self, call: NodeCall[R], connection: Connection, deadline: Deadline, request_timeout_ms: int | None = None
    ) -> R:
        version = connection.version(call.api, call.versions)
        request_deadline = deadline.within(request_timeout_ms or self.options.request_timeout_ms)
        response = connection.call(call.api, version, call.request(version), request_deadline)
        return call.result(version, response, connection.name)

    # --- partitions, each at its leader

    def send_to_leaders(
        self, call: LeaderCall[A, R], requested: Mapping[TopicPartition, A], deadline: Deadline
    ) -> dict[TopicPartition, R]:
        """Send to the leaders of these partitions in parallel, with retries.

        Raises: ClientError: of the first partition that failed for good; its `failed` and `done`
            cover all partitions. DeadlinePassed.
        """
        budget = RetryBudget(self.options, deadline)
        done: dict[TopicPartition, R] = {}
        failed: dict[TopicPartition, ClientError] = {}
        pending = {TopicPartition(*topic_partition): value for topic_partition, value in requested.items()}
        retryable: dict[TopicPartition, ClientError] = {}
        first: dict[TopicPartition, ClientError] = {}
        while pending:
            before, retryable = retryable, {}
            for topic_partition, result in self._round(call, pending, deadline).items():
                if not isinstance(result, ClientError):
                    done[topic_partition] = result
                    continue
                first.setdefault(topic_partition, result)
                repeatable = call.is_repeatable(pending[topic_partition])
                cut_off = deadline.is_expired and isinstance(result, ConnectionLost) and repeatable
                if cut_off or isinstance(result, DeadlinePassed):  # that says less than what was met before
                    result = before.get(topic_partition, result)
                if retry_action(result) in STALE_LEADER_ACTIONS:
                    self.cluster.invalidate(topic_partition.topic)
                (retryable if budget.allows(result, repeatable=repeatable) else failed)[topic_partition] = result
            pending = {topic_partition: pending[topic_partition] for topic_partition in retryable}
            if pending and not budget.pause():
                failed.update(
                    {
                        topic_partition: budget.passed(error, first[topic_partition])
                        for topic_partition, error in retryable.items()
                    }
                )
                break
        if failed:
            raise _first(failed, done)
        return {
            topic_partition: done[topic_partition] for topic_partition in (TopicPartition(*one) for one in requested)
        }

    def _round(
        self, call: LeaderCall[A, R], requested: Mapping[TopicPartition, A], deadline: Deadline
    ) -> dict[TopicPartition, R | ClientError]:
        results: dict[TopicPartition, R | ClientError] = {}
        sent: list[tuple[Connection, int, dict[TopicPartition, A]]] = []
        request_deadline = deadline.within(self.options.request_timeout_ms + call.wait_ms)
        for address, partitions in self._by_leader(call.api, requested, results, deadline).items():
            try:
                connection = self.connections.to(address, deadline)
                version = connection.version(
                    call.api, call.versions(self.cluster, [topic_partition.topic for topic_partition in partitions])
                )
                request = call.request(version, partitions, self.cluster, request_deadline)
                connection.send(call.api, version, request, request_deadline, is_answered=call.is_answered)
                sent.append((connection, version, partitions))
            except ClientError as error:
                results.update(dict.fromkeys(partitions, error))
        for connection, version, partitions in sent:
            try:
                answered = self._receive(call, connection, version, partitions, request_deadline)
                results.update(answered)
            except ClientError as error:
                results.update(dict.fromkeys(partitions, error))
        return results

    def _by_leader(
        self,
        api: Api,
        requested: Mapping[TopicPartition, A],
        results: dict[TopicPartition, R | ClientError],
        deadline: Deadline,
    ) -> dict[Address, dict[TopicPartition, A]]:
        """Return the partitions by leader address.

        Partitions without a leader get an error in `results`.
        """
        unknown = self.cluster.unknown(topic_partition.topic for topic_partition in requested)
        codes: Mapping[str, int] = {}
        if unknown:
            try:
                codes = self.refresh(unknown, deadline).failed or {}
            except ClientError as error:
                results.update(
                    {topic_partition: error for topic_partition in requested if topic_partition.topic in unknown}
                )
        by_address: dict[Address, dict[TopicPartition, A]] = {}
        for topic_partition, value in requested.items():
            if topic_partition in results:
                continue
            node = self.cluster.leader(topic_partition)
            if node is None:
                code = codes.get(topic_partition.topic) or self._why_no_leader(topic_partition)
                results[topic_partition] = response_error(code, api.name, self._bootstrap, topic_partition)
            else:
                by_address.setdefault(node.address, {})[topic_partition] = value
        return by_address

    def _why_no_leader(self, topic_partition: TopicPartition) -> ErrorCode:
        topic = self.cluster.topic(topic_partition.topic)
        there = topic is not None and topic_partition.partition in topic.partitions
        return ErrorCode.LEADER_NOT_AVAILABLE if there else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def _receive(
        self,
        call: LeaderCall[A, R],
        connection: Connection,
        version: int,
        partitions: Mapping[TopicPartition, A],
        deadline: Deadline,
    ) -> dict[TopicPartition, R | ClientError]:
        response = connection.receive(deadline) if call.is_answered else None
        results: dict[TopicPartition, R | ClientError] = {}
        for topic_partition, code, value, message in call.results(version, response, partitions, self.cluster):
            results[topic_partition] = (
                response_error(code, call.api.name, connection.name, topic_partition, message) if code else value
            )
        if results.keys() != partitions.keys():
            connection.close()
            raise _wrong_partitions(call.api, connection, set(results) ^ set(partitions))
        return results


def _wrong_partitions(api: Api, connection: Connection, partitions: set[TopicPartition]) -> BadAnswer:
    some = ", ".join(map(str, sorted(partitions)[:5]))
    return bad_answer(api.name, connection.name, f"leaves out what was asked, or has what was not: {some}")


def _first(failed: dict[TopicPartition, ClientError], done: Mapping[TopicPartition, object]) -> ClientError:
    """Return the error to raise: a FetchOutOfRange only if there is no other error."""
    error = next(
        (each for each in failed.values() if not isinstance(each, FetchOutOfRange)), next(iter(failed.values()))
    )
    error.failed, error.done = failed, done
    return error
