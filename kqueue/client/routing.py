"""Who is asked, and asked again: leaders, coordinators, the controller or anybody; all until a
deadline.

A call is either about partitions, which goes to their leaders at the same time (`LeaderCall`), or
one request to one broker (`NodeCall`). What becomes of an error is `remedies.RETRY_ACTIONS`.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar

from kqueue.base.addresses import Address
from kqueue.client.calls.contract import LeaderCall, NodeCall
from kqueue.client.calls.find_coordinator import FindCoordinator
from kqueue.client.calls.metadata import GetMetadata
from kqueue.client.connection import Connection, ConnectionPool
from kqueue.client.deadline import Deadline
from kqueue.client.errors import BadAnswer, BrokerRefused, ClientError, ConnectionLost, DeadlinePassed, FetchOutOfRange
from kqueue.client.metadata import ClusterMetadata, MetadataCache
from kqueue.client.options import ClientOptions
from kqueue.client.retry_policy import RetryAction, bad_answer, response_error, retry_action
from kqueue.client.topic_partition import TopicPartition
from kqueue.wire.apis import Api
from kqueue.wire.error_codes import ErrorCode

A = TypeVar("A")
R = TypeVar("R")


STALE_LEADER_ACTIONS = {RetryAction.REFRESH_METADATA, RetryAction.WAIT_FOR_TOPIC, RetryAction.RETRY_IF_REPEATABLE}


class RetryBudget:
    """How often one call tries again, and how long it pauses before. `missing_ms`: in place of the
    options' `missing_topic_ms`.
    """

    def __init__(self, options: ClientOptions, deadline: Deadline, missing_ms: float | None = None) -> None:
        self._options = options
        self._missing_ms = options.missing_topic_ms if missing_ms is None else missing_ms
        self._deadline = deadline
        self._missing_until: Deadline | None = None
        self._pause_ms = float(options.retry_backoff_ms)

    def allows(self, error: ClientError, *, repeatable: bool) -> bool:
        """Whether to ask again after this error, if there is time."""
        remedy = retry_action(error)
        if remedy is RetryAction.WAIT_FOR_TOPIC:
            self._missing_until = self._missing_until or Deadline(self._missing_ms)
            return not self._missing_until.is_expired
        return repeatable if remedy is RetryAction.RETRY_IF_REPEATABLE else remedy is not RetryAction.FAIL

    def pause(self) -> bool:
        """Wait a little, longer each time. False: the deadline would pass, or has passed; nothing
        was waited for then.
        """
        pause_s = self._pause_ms * random.uniform(0.8, 1.2) / 1000
        self._pause_ms = min(self._pause_ms * 2, self._options.retry_backoff_max_ms)
        if pause_s >= self._deadline.remaining_s:
            return False
        time.sleep(pause_s)
        return True

    def passed(self, last: ClientError, first: ClientError | None = None) -> DeadlinePassed:
        """What to raise once there is no time left. `first`: what came of the first try, which may
        be the cause of all that followed.
        """
        begun = "" if first is None or _kind(first) == _kind(last) else f"; the first: {first}"
        made = DeadlinePassed(
            f"no success within {self._deadline.timeout_ms:g} ms; the last that was met: {last}{begun}",
            broker=last.broker, api=last.api, topic=last.topic, partition=last.partition,
        )  # fmt: skip
        made.__cause__ = last
        return made


def _kind(error: ClientError) -> object:
    return error.code if isinstance(error, BrokerRefused) else type(error)


class Router:
    """The connections and the memory of one client; for one thread at a time."""

    def __init__(self, options: ClientOptions) -> None:
        self.options = options
        self.cluster = MetadataCache()
        self.connections = ConnectionPool(options)
        self._coordinators: dict[str, Address] = {}

    def close(self) -> None:
        self.connections.close()

    # --- one request to one broker

    def send_to_any(self, call: NodeCall[R], deadline: Deadline) -> R:
        """Ask whatever broker answers. Raises: ClientError."""
        return self._ask(call, self._any, deadline)

    def send_to_controller(self, call: NodeCall[R], deadline: Deadline) -> R:
        """Ask the broker that changes metadata, or hands such requests on. Raises: ClientError."""

        def find(deadline: Deadline) -> Connection:
            if self.cluster.controller not in self.cluster.brokers:
                self.refresh([], deadline)
            node = self.cluster.brokers.get(self.cluster.controller)
            return self._any(deadline) if node is None else self.connections.to(node.address, deadline)

        def moved() -> None:
            self.cluster.controller = -1

        return self._ask(call, find, deadline, moved)

    def send_to_coordinator(self, group: str, call: NodeCall[R], deadline: Deadline) -> R:
        """Ask the coordinator of a group. Raises: ClientError."""

        def find(deadline: Deadline) -> Connection:
            address = self._coordinators.get(group)
            if address is None:
                address = self._coordinators[group] = self._once(FindCoordinator(group), self._any(deadline), deadline)
            return self.connections.to(address, deadline)

        return self._ask(call, find, deadline, lambda: self._coordinators.pop(group, None))

    def send_to_all(self, call: NodeCall[R], deadline: Deadline) -> dict[int, R]:
        """Ask every broker of the cluster as it is now, one after the other; the answers by their
        ids. Raises: ClientError.
        """
        brokers = self.refresh([], deadline).brokers.values()
        return {node.id: self._ask(call, partial(self.connections.to, node.address), deadline) for node in brokers}

    def refresh(self, names: Sequence[str] | None, deadline: Deadline) -> ClusterMetadata:
        """Ask for metadata of these topics (None: all; none: the brokers alone), and remember it.
        Raises: ClientError.
        """
        metadata = self.send_to_any(GetMetadata(names), deadline)
        self.cluster.update(metadata, names)
        self.connections.keep_only({node.address for node in metadata.brokers.values()})
        return metadata

    def metadata(
        self, names: Sequence[str] | None, deadline: Deadline, missing_ms: float | None = None
    ) -> ClusterMetadata:
        """`refresh`, but a topic that was named and has an error is asked for again as `RETRY_ACTIONS`
        says. Raises: ClientError.
        """
        patience = RetryBudget(self.options, deadline, missing_ms)
        while True:
            found = self.refresh(names, deadline)
            if not found.failed or names is None:
                return found
            errors = [
                response_error(code, "Metadata", self._anybody, about=f"topic {name!r}")
                for name, code in found.failed.items()
            ]
            final = next((error for error in errors if not patience.allows(error, repeatable=True)), None)
            if final is not None:
                raise final
            if not patience.pause():
                raise patience.passed(errors[0])

    def led(self, names: Sequence[str], deadline: Deadline) -> ClusterMetadata:
        """`metadata`, once every partition of these topics, which are there for certain, has a
        leader. Raises: ClientError.
        """
        patience = RetryBudget(self.options, deadline)
        while True:
            found = self.metadata(names, deadline, missing_ms=deadline.remaining_ms)
            leaderless = [
                place for topic in found.topics.values() for place in topic.places if self.cluster.leader(place) is None
            ]
            if not leaderless:
                return found
            if not patience.pause():
                raise patience.passed(
                    response_error(ErrorCode.LEADER_NOT_AVAILABLE, "Metadata", self._anybody, leaderless[0])
                )

    @property
    def _anybody(self) -> str:
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
    ) -> R:
        patience = RetryBudget(self.options, deadline)
        while True:
            try:
                return self._once(call, find(deadline), deadline)
            except ClientError as error:
                if not patience.allows(error, repeatable=call.repeatable):
                    raise
                if retry_action(error) is not RetryAction.RETRY:
                    moved()
                if not patience.pause():
                    raise patience.passed(error) from error

    def _once(self, call: NodeCall[R], connection: Connection, deadline: Deadline) -> R:
        version = connection.version(call.api, call.versions)
        response = connection.call(
            call.api, version, call.request(version), deadline.within(self.options.request_timeout_ms)
        )
        return call.result(version, response, connection.name)

    # --- partitions, each at its leader

    def send_to_leaders(
        self, call: LeaderCall[A, R], asked: Mapping[TopicPartition, A], deadline: Deadline
    ) -> dict[TopicPartition, R]:
        """Ask the leaders of these partitions, all at the same time, and those again whose answer
        says so.

        Raises: ClientError: of the first partition that failed for good; its `failed` and `done`
        have all of them. DeadlinePassed.
        """
        patience = RetryBudget(self.options, deadline)
        done: dict[TopicPartition, R] = {}
        failed: dict[TopicPartition, ClientError] = {}
        waiting = {TopicPartition(*place): value for place, value in asked.items()}
        again: dict[TopicPartition, ClientError] = {}
        first: dict[TopicPartition, ClientError] = {}
        while waiting:
            before, again = again, {}
            for place, answer in self._round(call, waiting, deadline).items():
                if not isinstance(answer, ClientError):
                    done[place] = answer
                    continue
                first.setdefault(place, answer)
                repeatable = call.is_repeatable(waiting[place])
                cut_off = deadline.is_expired and isinstance(answer, ConnectionLost) and repeatable
                if cut_off or isinstance(answer, DeadlinePassed):  # that says less than what was met before
                    answer = before.get(place, answer)
                if retry_action(answer) in STALE_LEADER_ACTIONS:
                    self.cluster.invalidate(place.topic)
                (again if patience.allows(answer, repeatable=repeatable) else failed)[place] = answer
            waiting = {place: waiting[place] for place in again}
            if waiting and not patience.pause():
                failed.update({place: patience.passed(error, first[place]) for place, error in again.items()})
                break
        if failed:
            raise _first(failed, done)
        return {place: done[place] for place in (TopicPartition(*one) for one in asked)}

    def _round(
        self, call: LeaderCall[A, R], asked: Mapping[TopicPartition, A], deadline: Deadline
    ) -> dict[TopicPartition, R | ClientError]:
        found: dict[TopicPartition, R | ClientError] = {}
        sent: list[tuple[Connection, int, dict[TopicPartition, A]]] = []
        request_deadline = deadline.within(self.options.request_timeout_ms + call.wait_ms)
        for address, part in self._by_leader(call.api, asked, found, deadline).items():
            try:
                connection = self.connections.to(address, deadline)
                version = connection.version(call.api, call.versions(self.cluster, [place.topic for place in part]))
                request = call.request(version, part, self.cluster, request_deadline)
                connection.send(call.api, version, request, request_deadline, is_answered=call.is_answered)
                sent.append((connection, version, part))
            except ClientError as error:
                found.update(dict.fromkeys(part, error))
        for connection, version, part in sent:
            try:
                answered = self._receive(call, connection, version, part, request_deadline)
                found.update(answered)
            except ClientError as error:
                found.update(dict.fromkeys(part, error))
        return found

    def _by_leader(
        self,
        api: Api,
        asked: Mapping[TopicPartition, A],
        found: dict[TopicPartition, R | ClientError],
        deadline: Deadline,
    ) -> dict[Address, dict[TopicPartition, A]]:
        """The partitions by their leaders' addresses; those that nobody leads get their error in
        `found`.
        """
        unknown = self.cluster.unknown(place.topic for place in asked)
        codes: Mapping[str, int] = {}
        if unknown:
            try:
                codes = self.refresh(unknown, deadline).failed or {}
            except ClientError as error:
                found.update({place: error for place in asked if place.topic in unknown})
        parts: dict[Address, dict[TopicPartition, A]] = {}
        for place, value in asked.items():
            if place in found:
                continue
            node = self.cluster.leader(place)
            if node is None:
                code = codes.get(place.topic) or self._why_no_leader(place)
                found[place] = response_error(code, api.name, self._anybody, place)
            else:
                parts.setdefault(node.address, {})[place] = value
        return parts

    def _why_no_leader(self, place: TopicPartition) -> ErrorCode:
        topic = self.cluster.topic(place.topic)
        there = topic is not None and place.partition in topic.partitions
        return ErrorCode.LEADER_NOT_AVAILABLE if there else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def _receive(
        self,
        call: LeaderCall[A, R],
        connection: Connection,
        version: int,
        part: Mapping[TopicPartition, A],
        deadline: Deadline,
    ) -> dict[TopicPartition, R | ClientError]:
        response = connection.receive(deadline) if call.is_answered else None
        found: dict[TopicPartition, R | ClientError] = {}
        for place, code, value, message in call.answers(version, response, part, self.cluster):
            found[place] = response_error(code, call.api.name, connection.name, place, message) if code else value
        if found.keys() != part.keys():
            connection.close()
            raise _wrong_partitions(call.api, connection, set(found) ^ set(part))
        return found


def _wrong_partitions(api: Api, connection: Connection, places: set[TopicPartition]) -> BadAnswer:
    some = ", ".join(map(str, sorted(places)[:5]))
    return bad_answer(api.name, connection.name, f"leaves out what was asked, or has what was not: {some}")


def _first(failed: dict[TopicPartition, ClientError], done: Mapping[TopicPartition, object]) -> ClientError:
    """The error to raise; one of what can be helped by asking for another offset only if there are
    no others.
    """
    error = next(
        (each for each in failed.values() if not isinstance(each, FetchOutOfRange)), next(iter(failed.values()))
    )
    error.failed, error.done = failed, done
    return error
