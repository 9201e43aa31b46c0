"""`ElectionMember`: a registry as a member of the group, in a thread of its own."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable
from typing import NamedTuple, Protocol

from kqueue.base import events
from kqueue.base.clock import monotonic_s
from kqueue.client import Client, ClientOptions, GroupProtocol, JoinedGroup
from kqueue.client.calls.classic_membership import NO_GENERATION
from kqueue.client.errors import BrokerRefused, ClientError
from kqueue.schema_registry.election.group_messages import (
    DUPLICATE_URLS,
    PROTOCOL_NAME,
    PROTOCOL_TYPE,
    LeaderAssignment,
    MalformedGroupMessage,
    RegistryIdentity,
    choose_leader,
    decode_assignment,
    encode_assignment,
    encode_identity,
)
from kqueue.schema_registry.schema_log import StoreUnavailable

BACKOFF_FIRST_S, BACKOFF_MAX_S = 0.1, 5.0
LEAVE_MS = 2_000
REJOIN = ("REBALANCE_IN_PROGRESS", "ILLEGAL_GENERATION")
NO_MEMBER = ("UNKNOWN_MEMBER_ID", "FENCED_INSTANCE_ID")
NOBODY = LeaderAssignment(0, None, None)
logger = logging.getLogger("kqueue.schema_registry")


class Writer(Protocol):
    """What becomes the writer when its registry is elected: `SchemaTopicLog`."""

    @property
    def is_claimed(self) -> bool:
        """Whether it may write."""
        ...

    def claim(self, confirm: Callable[[], None]) -> None:
        """Become the writer. `confirm` raises unless this registry is still elected."""
        ...

    def release(self) -> None:
        """Write no more until the next claim."""
        ...


class ElectionTimes(NamedTuple):
    """`session_ms`: after so long without a heartbeat others elect; `rebalance_ms`: how long they
    wait for a member that has to join again.
    """

    session_ms: int = 10_000
    heartbeat_ms: int = 3_000
    rebalance_ms: int = 10_000


TIMES = ElectionTimes()
"""Those of Confluent's registry, but for the rebalance, for which it waits five minutes."""


class ElectionMember:
    """The membership of one registry, and its `Leadership`.

    The group's own leader names the writer to all members of a generation. A registry writes only

    1. in the generation in which it was named,
    2. after it has claimed the topic, and confirmed its generation after that by a heartbeat:
       `SchemaTopicLog.claim` says why an earlier writer can then append nothing more,
    3. until a heartbeat says that a rebalance began, or `session_ms` after the last one that the
       coordinator confirmed, counted from when it was sent.

    3 alone leaves the batch that is on its way when the session ends; 2 has the broker refuse it.

    Thread: any, for `is_leader`, `leader_url` and `wake`.
    """

    def __init__(
        self,
        options: ClientOptions,
        group: str,
        identity: RegistryIdentity,
        writer: Writer,
        *,
        times: ElectionTimes = TIMES,
        now_s: Callable[[], float] = monotonic_s,
    ) -> None:
        self.identity = identity
        self.generation = NO_GENERATION
        self._times = times
        self._protocol = GroupProtocol(
            group, PROTOCOL_TYPE, PROTOCOL_NAME, encode_identity(identity), times.session_ms, times.rebalance_ms
        )
        self._options = options
        self._client = Client(options)
        self._writer = writer
        self._now_s = now_s
        self._assignment = NOBODY
        self._member_id = ""
        self._session_ends_s = 0.0
        self._is_member = False
        self._last_failure: type[Exception] | None = None
        self._stopping = threading.Event()
        self._awake = threading.Event()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Join in a thread; others may still lead for as long as a rebalance takes."""
        self._thread = threading.Thread(target=self._run, name="kqueue-registry-election", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Write no more, end the thread, leave the group: another member is elected at once."""
        self._stopping.set()
        self._resign()
        self._notify()
        self._awake.set()
        if self._thread is not None:
            self._client.interrupt()
            self._thread.join()
        self._client.close()
        if self._member_id:
            with contextlib.suppress(ClientError), Client(self._options) as client:
                client.membership.leave(self._protocol.group, self._member_id, timeout_ms=LEAVE_MS)

    def is_leader(self) -> bool:
        """Whether this registry writes now."""
        return self._is_named and self._writer.is_claimed and self._now_s() < self._session_ends_s

    def leader_url(self) -> str | None:
        """The URL of the registry that was named in this generation; None: none was."""
        identity = self._assignment.identity
        return identity.url if identity is not None and self._now_s() < self._session_ends_s else None

    def wait_until_settled(self, timeout_s: float) -> bool:
        """Wait until a registry is named, and has claimed the topic if it is this one; return
        whether that is so. A rebalance takes as long as the other members need to notice it.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._is_settled or self._stopping.is_set(), timeout_s)
            return self._is_settled

    def next_leader_url(self, old_url: str, timeout_s: float) -> str | None:
        """Wait until another registry than that of `old_url` is named; return its URL; None: none
        was in time.
        """

        def is_changed() -> bool:
            return self._is_settled and self.leader_url() != old_url

        with self._changed:
            self._changed.wait_for(lambda: is_changed() or self._stopping.is_set(), timeout_s)
            return self.leader_url() if is_changed() else None

    @property
    def _is_settled(self) -> bool:
        return self.leader_url() is not None and (self._writer.is_claimed or not self._is_named)

    def wake(self) -> None:
        """Have a lost claim made again now, not with the next heartbeat."""
        self._awake.set()

    @property
    def _is_named(self) -> bool:
        return self._is_member and self._assignment.member_id == self._member_id

    # --- the thread

    def _run(self) -> None:
        backoff_s = BACKOFF_FIRST_S
        while not self._stopping.is_set():
            try:
                self._take_part()
                backoff_s = BACKOFF_FIRST_S
            except (ClientError, MalformedGroupMessage) as error:
                self._resign()
                if isinstance(error, BrokerRefused) and error.code_name in REJOIN:
                    continue
                if isinstance(error, BrokerRefused) and error.code_name in NO_MEMBER:
                    self._member_id = ""
                    continue
                if self._stopping.is_set():
                    return
                self._log_failure(error)
                self._stopping.wait(backoff_s)
                backoff_s = min(backoff_s * 2, BACKOFF_MAX_S)

    def _log_failure(self, error: Exception) -> None:
        if type(error) is self._last_failure:  # one line, not one for each try
            return
        self._last_failure = type(error)
        events.REGISTRY_ELECTION_FAILED.log(
            logger, "no part in the election of group %s: %s", group=self._protocol.group, error=error
        )

    def _take_part(self) -> None:
        """Join, and stay a member until an error ends the generation."""
        joined = self._joined()
        assignments = {}
        if joined.is_leader:
            assignments = dict.fromkeys(joined.members, encode_assignment(choose_leader(joined.members)))
        sent_s = self._now_s()
        assignment = decode_assignment(self._client.membership.sync(self._protocol, joined, assignments))
        self.generation = joined.generation
        self._assignment = assignment
        self._session_ends_s = sent_s + self._times.session_ms / 1000
        self._is_member, self._last_failure = True, None
        self._notify()
        self._report(assignment)
        while not self._stopping.is_set():
            if self._is_named and not self._writer.is_claimed:
                self._claim()
            self._awake.wait(self._times.heartbeat_ms / 1000)
            self._awake.clear()
            if not self._stopping.is_set():
                self._beat()

    def _joined(self) -> JoinedGroup:
        while True:
            joined = self._client.membership.join(self._protocol, self._member_id)
            self._member_id = joined.member_id
            if joined.generation != NO_GENERATION:
                return joined

    def _beat(self) -> None:
        sent_s = self._now_s()
        self._client.membership.heartbeat(
            self._protocol.group, self._member_id, self.generation, timeout_ms=self._times.session_ms
        )
        self._session_ends_s = sent_s + self._times.session_ms / 1000

    def _claim(self) -> None:
        try:
            self._writer.claim(self._beat)
            self._notify()
        except StoreUnavailable as error:
            events.REGISTRY_NOT_WRITING.log(logger, "elected, but %s", error=error)
        else:
            events.REGISTRY_LEADS.log(
                logger, "%s writes, in generation %s", url=self.identity.url, generation=self.generation
            )

    def _resign(self) -> None:
        self._is_member = False
        self._assignment = NOBODY
        self._writer.release()

    def _notify(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _report(self, assignment: LeaderAssignment) -> None:
        if assignment.error == DUPLICATE_URLS:
            reason = "two members of the group have the same URL: give each another --advertised-url"
        elif assignment.error:
            reason = f"the group's leader named no writer, with error {assignment.error}"
        elif assignment.identity is None:
            reason = "no member may write"
        else:
            if assignment.member_id != self._member_id:
                events.REGISTRY_FOLLOWS.log(
                    logger, "%s writes, in generation %s", url=assignment.identity.url, generation=self.generation
                )
            return
        events.REGISTRY_NO_LEADER.log(
            logger, "no registry of group %s writes: %s", group=self._protocol.group, reason=reason
        )
