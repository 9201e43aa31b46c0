"""The controller: one broker of the cluster, which fences, unfences and elects.

Every member campaigns; the store gives the term to one. What it decides is a pure function of the
metadata and the live sessions (`kqueue.replication.controller`), computed in a job after each
change, again and again until nothing is left to do. So a new controller needs no more than the
metadata to go on where another one stopped.

Each commit is guarded by the term (rule 7), and by the versions of the records that the decision
was made from. One that fails voids the rest of the decision: the next one sees what has changed.
Brokers are fenced before the topics change, and unfenced after it; see `Decision`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from kqueue.base import events
from kqueue.base.config import Config
from kqueue.base.errors import Conflict, KqueueError, SessionLost, StorageFailed
from kqueue.base.jobs import IoJob, Jobs
from kqueue.base.timers import Timers
from kqueue.broker.cluster.registration import QUEUE, Registration
from kqueue.broker.metadata.brokers import ClusterBrokers
from kqueue.broker.metadata.cluster_cache import ClusterMetadata
from kqueue.metadata.store import ClusterStore, ControllerInfo, Session, Term
from kqueue.replication.config import MemberConfig, RebalanceConfig
from kqueue.replication.controller import Decision, DecisionOptions, balance_leaders, decide
from kqueue.replication.registrations import (
    BROKERS_PREFIX,
    NO_LEADER,
    TOPICS_PREFIX,
    BrokerRegistration,
    ClusterImage,
    TopicRegistration,
)

COMMIT_BYTES_MAX = 256 * 1024
COMMIT_TOPICS_MAX = 200
"""A decision is committed in parts: ZooKeeper takes 1 MiB at once, and other commits wait."""
NO_CONTROLLER = ControllerInfo(NO_LEADER, 0)
logger = logging.getLogger("kqueue.broker")


class _Part(NamedTuple):
    """Records to commit at once, by key, and those that they were decided from."""

    puts: Mapping[str, bytes]
    basis: Mapping[str, bytes | BrokerRegistration]


class _Decided(NamedTuple):
    """Result of `_Look`. `term`: None: this broker is not the controller. `seen`: see `_Look`."""

    controller: ControllerInfo
    term: Term | None
    decision: Decision = Decision()
    parts: tuple[_Part, ...] = ()
    seen: tuple[object, ...] = ()


class _Images:
    """Topics as decisions see them. Belongs to the job while one runs, else to the owner thread."""

    def __init__(self) -> None:
        self.records: dict[str, bytes] = {}
        self.topics: dict[str, TopicRegistration] = {}

    def update(self, records: Mapping[str, bytes | None]) -> None:
        """Take over changed records; None: deleted. A damaged one is reported and left alone."""
        for name, record in records.items():
            self.records.pop(name, None)
            self.topics.pop(name, None)
            if record is None:
                continue
            try:
                self.topics[name] = TopicRegistration.from_bytes(name, record)
                self.records[name] = record
            except StorageFailed as error:
                events.CONTROLLER_TOPIC_SKIPPED.log(
                    logger, "the controller leaves topic %s alone: %s", topic=name, error=error
                )


class _Look(NamedTuple):
    """A job: who is the controller, and if it is this broker, what is to be done.

    Attributes:
        changed: topics since the last look, which decided all that was to be decided for the others
            as long as brokers, sessions and options stay as `seen`.
        balances: whether to elect preferred leaders, if nothing else is to be done.
    """

    store: ClusterStore
    session: Session
    term: Term | None
    brokers: Mapping[int, BrokerRegistration]
    images: _Images
    changed: Mapping[str, bytes | None]
    options: DecisionOptions
    seen: tuple[object, ...]
    balances: bool

    def run(self) -> _Decided:
        term = self._campaign()
        holder = self.store.controller()
        controller = holder or NO_CONTROLLER
        # No decision with a term that the owner thread does not know yet: it has collected no
        # changes under it.
        if term is None or term is not self.term:
            return _Decided(controller, term)  # with the next look, which has the topics
        sessions = {node_id: info.epoch for node_id, info in self.store.sessions().items()}
        self.images.update(self.changed)
        image = ClusterImage(self.brokers, self.images.topics, controller.node_id)
        seen = (self.brokers, sessions, self.options)
        decision = decide(image, sessions, self.options, self.changed if seen == self.seen else None)
        if not decision and self.balances:
            # Leaders are balanced only while nothing else is to be done: an election for comfort
            # must not delay one that a failure needs.
            decision = balance_leaders(image, 0, self.options)
        return _Decided(controller, term, decision, tuple(self._parts(decision)), seen)

    def _campaign(self) -> Term | None:
        """Return the term, if this broker has it or nobody has."""
        holder = self.store.controller()
        is_own = holder is not None and holder.node_id == self.session.node_id
        if self.term is not None and is_own and holder is not None and holder.epoch == self.term.epoch:
            return self.term
        return self.store.campaign(self.session) if holder is None or is_own else None

    def _parts(self, decision: Decision) -> Iterator[_Part]:
        # This order is rules 2 and 3: fenced first, so that no leader adds the broker to a set
        # again behind the topics' change; unfenced last, when it has left the sets of its former
        # life.
        yield from self._brokers_part(decision.fenced)
        puts: dict[str, bytes] = {}
        size = 0
        for name, topic in decision.topics.items():
            record = topic.to_bytes()
            if puts and (size + len(record) > COMMIT_BYTES_MAX or len(puts) == COMMIT_TOPICS_MAX):
                yield self._topics_part(puts)
                puts, size = {}, 0
            puts[name] = record
            size += len(record)
        if puts:
            yield self._topics_part(puts)
        yield from self._brokers_part(decision.unfenced)

    def _topics_part(self, puts: Mapping[str, bytes]) -> _Part:
        basis = {TOPICS_PREFIX + name: self.images.records[name] for name in puts}
        return _Part({TOPICS_PREFIX + name: record for name, record in puts.items()}, basis)

    def _brokers_part(self, brokers: Sequence[BrokerRegistration]) -> Iterator[_Part]:
        if brokers:
            basis = {f"{BROKERS_PREFIX}{broker.id}": self.brokers[broker.id] for broker in brokers}
            yield _Part({f"{BROKERS_PREFIX}{broker.id}": broker.to_bytes() for broker in brokers}, basis)


class Controller:
    """Campaigns for one broker, and acts while it holds the term. Thread: owner thread.

    Attributes: term: of this broker; None: another one is the controller, or nobody.
    """

    def __init__(
        self,
        config: Config,
        store: ClusterStore,
        metadata: ClusterMetadata,
        cluster: ClusterBrokers,
        registration: Registration,
        jobs: Jobs,
    ) -> None:
        self._config = config
        self._store = store
        self._metadata = metadata
        self._cluster = cluster
        self._registration = registration
        self._jobs = jobs
        self._images = _Images()
        self._changed: dict[str, bytes | None] | None = None  # topics since the last look; None: all
        self._seen: tuple[object, ...] = ()
        self._running = self._again = self._balance_due = self._stopped = False
        self.term: Term | None = None
        metadata.observe(TOPICS_PREFIX, self._topics_changed)
        metadata.observe_refresh(self.look)
        registration.observe_session(lambda session: self._lose_term())

    def start(self, timers: Timers) -> None:
        """Campaign from now on."""
        timers.every(MemberConfig.of(self._config).heartbeat_interval_ms, self.look)
        timers.every(RebalanceConfig.of(self._config).interval_ms, self._balance)
        self.look()

    def stop(self) -> None:
        """Decide nothing more, and give up the term."""
        self._stopped = True
        term = self.term
        if term is not None:
            self._lose_term()
            self._jobs.submit(IoJob("give up the term", term.resign, _resigned, QUEUE))

    def look(self) -> None:
        """Find out who is the controller; if it is this broker, do what is to be done."""
        session = self._registration.session
        if self._running:
            # What is being looked at now may lack the change that this call is about.
            self._again = True
        elif session is not None and not self._stopped:
            self._running, self._again = True, False
            look = self._next_look(session)
            self._jobs.submit(IoJob("control the cluster", lambda: look.run(), self._looked, QUEUE))

    def _topics_changed(self, records: Mapping[str, bytes | None]) -> None:
        if self._changed is not None:
            self._changed.update(records)

    def _balance(self) -> None:
        self._balance_due = RebalanceConfig.of(self._config).is_on
        self.look()

    def _lose_term(self) -> None:
        if self.term is not None:
            events.CONTROLLER_RESIGNED.log(logger, "this broker is not the controller any more")
        self.term = self._changed = None

    def _next_look(self, session: Session) -> _Look:
        changed: dict[str, bytes | None] = {}
        if self.term is not None:
            if self._changed is None:
                # A new term, or a decision that was void: all topics are read again. After that
                # only changed ones are looked at.
                self._images, self._seen = _Images(), ()
                changed = dict(self._metadata.with_prefix(TOPICS_PREFIX))
            else:
                changed = self._changed
            self._changed = {}
        brokers = {broker.id: broker for broker in self._cluster.all()}
        min_isr, unclean = self._config["min.insync.replicas"], self._config["unclean.leader.election.enable"]
        return _Look(
            self._store, session, self.term, brokers, self._images, changed, DecisionOptions(min_isr, unclean),
            self._seen, self._balance_due,
        )  # fmt: skip

    def _looked(self, decided: _Decided | None, error: BaseException | None) -> None:
        if decided is None or self._stopped:
            self._fail(error)
            return
        self._cluster.controller_id, self._cluster.controller_epoch = decided.controller
        if decided.term is None:
            self._lose_term()
        elif decided.term is not self.term:
            events.CONTROLLER_ELECTED.log(logger, "this broker is the controller, term %d", term=decided.term.epoch)
            # This look decided nothing: it was made before the term, without the topics.
            self.term, self._changed, self._again = decided.term, None, True
        elif not decided.decision:
            self._balance_due = False
        self._seen = decided.seen
        self._commit(decided, 0)

    def _commit(self, decided: _Decided, number: int) -> None:
        """Commit the part of this number, and those after it."""
        if number == len(decided.parts):
            self._report(decided.decision)
            # Something was committed, and may make more due: `decide` is repeated until it decides
            # nothing.
            self._again |= number > 0
            self._end()
            return
        part = decided.parts[number]
        # The store would refuse it too. Asked here, a decision that is out of date costs no commit.
        if self.term is not decided.term or not self._is_basis(part):
            self._void(decided, number)
            return

        def done(error: KqueueError | None) -> None:
            if error is None:
                self._commit(decided, number + 1)
            # Expected: leaders change their in-sync sets meanwhile. The next decision is made from
            # what they wrote.
            elif isinstance(error, Conflict):
                self._void(decided, number)
            else:
                self._report(decided.decision if number else Decision())
                self._fail(error)

        self._metadata.commit("change the cluster", part.puts, done, by=decided.term)

    def _is_basis(self, part: _Part) -> bool:
        """Whether the records that the part was decided from are still the present ones."""
        for key, value in part.basis.items():
            if isinstance(value, BrokerRegistration):
                if self._cluster.find(value.id) != value:
                    return False
            elif self._metadata.get(key) != value:
                return False
        return True

    def _void(self, decided: _Decided, number: int) -> None:
        """Decide again: records have changed meanwhile."""
        if number:
            self._report(decided.decision)
        self._changed, self._again = None, True
        self._end()

    def _fail(self, error: BaseException | None) -> None:
        """Try again at the next signal or interval."""
        if isinstance(error, SessionLost):
            self._lose_term()
        elif error is not None and not isinstance(error, StorageFailed):
            events.CONTROLLER_FAILED.log(logger, "the controller can't go on", exc_info=error)
        self._changed, self._running = None, False

    def _end(self) -> None:
        self._running = False
        if self._again:
            self.look()

    def _report(self, decision: Decision) -> None:
        event = events.UNCLEAN_ELECTION if decision.unclean_elections else events.CONTROLLER_DECIDED
        for line in decision.lines:
            event.log(logger, "%s", what=line)


def _resigned(_: None, error: BaseException | None) -> None:
    """A term that could not be given up ends with the session."""
