"""This broker's registration with its cluster: session, record, controlled shutdown.

    start      a session begins, so that a second broker of the node id is refused at once
    recovered  the record is committed, fenced and with the session's broker epoch (rule 1)
    unfenced   by the controller (rule 2), which has settled before what this broker led
    leaving    the record asks for a relief of all leaderships; then the session ends

The record waits for the recovery of the logs, which tells whether they are clean: nothing that this
broker confirmed can be missing. They are if the last stop marked them so, or if the broker flushes
before it confirms (`kqueue.flush=group`), has all data folders of its last life, and recovery found
no damage in what was flushed. Else the broker is not eligible for what it led, or was in sync for.

Nor is it if a data folder is not the one that took part last, but an older copy of it: see
`folder_identity`. Before the record is committed, the new registration is marked in all folders.

A session that was lost is begun anew, with a higher broker epoch: others may lead by now, and say
so in the metadata. While the store is away the broker serves on by what it knows. Source: KIP-631,
KIP-841, KIP-966; Kafka's BrokerLifecycleManager, ClusterControlManager.
"""

from __future__ import annotations

import json
import logging
import random
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from kqueue.base import events
from kqueue.base.clock import monotonic_s, sleep
from kqueue.base.errors import Conflict, KqueueError, NodeIdInUse, SessionLost, StorageFailed
from kqueue.base.jobs import IoJob, Jobs
from kqueue.base.names import random_uuid, uuid_text
from kqueue.base.timers import PeriodicTimer, Timers
from kqueue.base.version import __version__
from kqueue.broker.cluster.folder_identity import FolderIdentity
from kqueue.broker.metadata.brokers import ClusterBrokers
from kqueue.broker.metadata.cluster_cache import ClusterMetadata
from kqueue.broker.metadata.features import FEATURES
from kqueue.log.folders.registration_mark import Comparison, RegistrationMark, RegistrationStamp
from kqueue.metadata.store import ClusterStore, Session
from kqueue.replication.config import MemberConfig
from kqueue.replication.registrations import BROKERS_PREFIX, TOPICS_PREFIX, BrokerRegistration, Endpoint

CLUSTER_KEY = "/cluster"
FORMAT = 1
"""Of all records of a cluster. A broker refuses another one."""
QUEUE = "cluster session"
"""Of jobs. Signs of life do not wait for commits."""
MARK_QUEUE = "registration marks"
"""Of jobs. They are written in order, and the store is not waited for."""
GRACE_MS = 4000.0
"""A store may end a session by this later than its timeout: two ticks of ZooKeeper."""
RENEW_MS = 10_000.0
"""While records are appended, the stamp of the data folders is renewed so often: a copy of a
running broker's folder that is put back is older than its last stamp then, though of one life.
"""
RENEW_CHANGED_MS = 1000.0
"""Once topics have changed, their leaders or in-sync sets among them, the stamp is renewed so soon:
a copy of the store from before is older than the stamp then. Without such a change it elects the
same brokers.
"""
POLL_S = 0.2
logger = logging.getLogger("kqueue.broker")


class WrongCluster(KqueueError):
    """A data folder belongs to another cluster than the store, or the store to another kqueue."""


class LogsFound(NamedTuple):
    """The logs as a start finds them.

    Attributes:
        directories: ids of the data folders that can be used.
        stopped_epochs: the broker epochs in their marks of a clean stop; -1: without a mark.
        is_intact: recovery found nothing wrong or missing in what was flushed.
        flushes_first: whether the broker confirms only what it has flushed.
        has_new_folder: whether a data folder is used for the first time.
        is_in_sync: whether the broker is in an in-sync or eligible set.
    """

    directories: tuple[str, ...]
    stopped_epochs: tuple[int, ...]
    is_intact: bool
    flushes_first: bool
    has_new_folder: bool = False
    is_in_sync: bool = False

    def is_clean(self, before: BrokerRegistration | None, is_older_copy: bool = False) -> bool:
        """Whether nothing can be missing of what the broker confirmed in its life `before`; None:
        it had none, or is not registered any more. A life that was not clean, and never unfenced,
        leaves another one.

        Args: is_older_copy: a data folder is not the one that took part last.
        """
        if self.is_outdated(before, is_older_copy):
            return False
        if before is None:
            return True
        stopped_cleanly = all(epoch == before.epoch for epoch in self.stopped_epochs)
        return before.clean and (self.flushes_first or stopped_cleanly)

    def is_outdated(self, before: BrokerRegistration | None, is_older_copy: bool = False) -> bool:
        """Whether records are missing that the logs had on their disks in the life `before`: those
        of an older copy, of a lost or empty data folder, or damaged ones. Args: as `is_clean`.
        """
        if before is None:
            return self.is_in_sync and (self.has_new_folder or is_older_copy)
        has_all_folders = set(before.directories) <= set(self.directories)
        return is_older_copy or before.outdated or not self.is_intact or not has_all_folders


class BrokerProcess(NamedTuple):
    """The values that a process registers.

    Attributes:
        incarnation: a random text of this process.
        rack: None: not set.
        listeners: returns the advertised addresses, by name of the listener.
        progress: returns a number that changes when records are appended.
    """

    incarnation: str
    rack: str | None
    listeners: Callable[[], Mapping[str, Endpoint]]
    progress: Callable[[], int] = lambda: 0


def join_cluster(store: ClusterStore, folders: Iterable[tuple[str, str | None]], rng: random.Random) -> str:
    """Return the cluster's id. The first broker gives a new cluster the id of its folders, or a
    random one. Blocks.

    Args: folders: location and cluster id of each data folder; None: it is new.
    Raises: WrongCluster: a folder is of another cluster, or the cluster of a newer kqueue.
        StorageFailed.
    """
    given = {location: id for location, id in folders if id is not None}
    entry = store.read(CLUSTER_KEY).get(CLUSTER_KEY)
    if entry is None:
        id = next(iter(given.values()), None) or uuid_text(random_uuid(rng))
        record = json.dumps({"id": id, "format": FORMAT}).encode()
        try:
            store.commit({CLUSTER_KEY: None}, {CLUSTER_KEY: record}, ())
        except Conflict:
            # Another broker was first: its id is the cluster's.
            record = store.read(CLUSTER_KEY)[CLUSTER_KEY].value
    else:
        record = entry.value
    try:
        values = json.loads(record)
        cluster_id, format = str(values["id"]), int(values["format"])
    except (ValueError, KeyError, TypeError) as error:
        raise StorageFailed(f"the metadata store is damaged: {CLUSTER_KEY} can't be read: {error!r}") from error
    if format != FORMAT:
        raise WrongCluster(f"the metadata of cluster {cluster_id} have format {format}; this kqueue reads {FORMAT}")
    for location, id in given.items():
        if id != cluster_id:
            raise WrongCluster(
                f"data folder {location} belongs to cluster {id}, and kqueue.cluster.store is that of cluster "
                f"{cluster_id}: name the right store, or a new folder"
            )
    return cluster_id


class Registration:
    """The session of one broker, and its record in the store.

    Args: identity: tells whether the data folders are those that took part last.

    Attributes:
        session: the present one, which may be lost; None before `begin`.
        sessions_begun: by this process.
        is_leaving: `leave` was called.
    Thread: owner thread.
    """

    def __init__(
        self,
        store: ClusterStore,
        metadata: ClusterMetadata,
        cluster: ClusterBrokers,
        settings: MemberConfig,
        jobs: Jobs,
        identity: FolderIdentity,
        process: BrokerProcess,
    ) -> None:
        self._store = store
        self._metadata = metadata
        self._cluster = cluster
        self._settings = settings
        self._jobs = jobs
        self._process = process
        self._incarnation = process.incarnation
        self._identity = identity
        self._attempted: set[int] = set()  # broker epochs that this process tried to commit
        self._is_loss_reported = False
        self._progress = 0  # at the last stamp
        self._renewals = 0
        self._have_topics_changed = False  # since the last stamp
        self._renewal_timers: list[PeriodicTimer] = []
        self._logs: LogsFound | None = None  # once they are recovered
        self._beating = self._committing = self._is_unwritable = False
        self._failed_beat: StorageFailed | None = None
        self._refusal: type | None = None
        metadata.observe_refresh(self._report_unwritable)
        metadata.observe(TOPICS_PREFIX, self._topics_changed)
        self._timer: PeriodicTimer | None = None
        self._on_session: list[Callable[[Session], None]] = []
        self.session: Session | None = None
        self.sessions_begun = 0
        self.is_leaving = False

    @property
    def own(self) -> BrokerRegistration | None:
        """The record of the present session, as this broker knows it; None: it is not committed."""
        broker = self._cluster.find(self._cluster.node_id)
        return (
            broker if broker is not None and self.session is not None and broker.epoch == self.session.epoch else None
        )

    @property
    def is_unfenced(self) -> bool:
        """Whether the controller has unfenced the present session: this broker may lead."""
        own = self.own
        return own is not None and not own.fenced

    @property
    def store_error(self) -> StorageFailed | None:
        """Why the store did not take the last sign of life; None: it did."""
        return self._failed_beat

    def observe_session(self, began: Callable[[Session], None]) -> None:
        """Call `began` with each session once it has begun."""
        self._on_session.append(began)

    def begin(self) -> None:
        """Begin the first session. Blocks.

        The session of the process before, if that crashed, may live on until its timeout: it is
        waited for.
        Raises: OlderStore: a data folder knows a later registration than the store. NodeIdInUse:
            another broker of this node id is alive. StorageFailed.
        """
        # Before the session: registering raises the broker epoch in the store, and a store that was
        # put back from a copy must be refused before it is changed.
        self._identity.check_store(self._cluster.find(self._cluster.node_id))
        wait_s = (self._settings.session_timeout_ms + GRACE_MS) / 1000
        until_s = monotonic_s() + wait_s
        is_told = False
        while True:
            try:
                self._took(self._register())
                return
            except NodeIdInUse as error:
                if not error.may_have_ended or monotonic_s() > until_s:
                    raise
                if not is_told:
                    events.REGISTRATION_WAITING.log(
                        logger,
                        "waiting for up to %.0f s until the session of broker %d's last process ends: %s",
                        wait_s=wait_s,
                        broker=self._cluster.node_id,
                        error=error,
                    )
                is_told = True
            sleep(POLL_S)

    def start(self, timers: Timers) -> None:
        """Give signs of life from now on."""
        assert self.session is not None
        # At least three signs within a timeout, whatever is configured: one that is late or lost
        # must not end the session.
        interval_ms = min(self._settings.heartbeat_interval_ms, max(self.session.timeout_ms / 3, 1))
        self._timer = timers.every(interval_ms, self._beat)
        self._renewal_timers = [
            timers.every(RENEW_MS, self._renew),
            timers.every(RENEW_CHANGED_MS, self._renew_changed),
        ]

    def announce(self, logs: LogsFound) -> None:
        """Commit the record: the logs are recovered."""
        self._logs = logs
        self._settle()

    def leave(self) -> None:
        """Ask for a relief of all leaderships, and of the in-sync sets that others remain in."""
        self.is_leaving = True
        self._settle()

    def end(self) -> None:
        """End the session, so that others need not wait for its timeout. Blocks. Of a store that
        is away it ends by its timeout. A second call does nothing. Thread: any, once the owner
        thread changes nothing more.
        """
        self._stop_timers()
        session, self.session = self.session, None
        if session is not None:
            try:
                session.end()
            except (StorageFailed, SessionLost) as error:
                events.SESSION_NOT_ENDED.log(
                    logger, "the session with the cluster ends by its timeout: %s", error=error
                )

    def abandon(self) -> None:
        """Give no more signs of life. The session ends by its timeout."""
        self._stop_timers()
        self.session = None

    def _stop_timers(self) -> None:
        for timer in (self._timer, *self._renewal_timers):
            if timer is not None:
                timer.cancel()

    # --- signs of life

    def _register(self) -> Session:
        return self._store.register(self._cluster.node_id, self._incarnation, self._settings.session_timeout_ms)

    def _took(self, session: Session) -> None:
        self.session = session
        self.sessions_begun += 1
        for began in self._on_session:
            began(session)

    def _beat(self) -> None:
        session = self.session
        if self._beating or session is None:
            return  # the store has not answered yet
        self._beating = True

        def run() -> Session:
            try:
                session.keep_alive()
            except SessionLost:
                # A new session at once, in the same job: until it is registered this broker can
                # change nothing, and is fenced.
                return self._register()
            return session

        self._jobs.submit(IoJob("keep the session with the cluster", run, self._beaten, QUEUE))

    def _beaten(self, session: Session | None, error: BaseException | None) -> None:
        self._beating = False
        if session is None:
            if isinstance(error, StorageFailed):
                self._failed_beat = error
                self._metadata.refresh()  # which reports that the store is away, once
            else:
                self._report_refusal(error)
            return
        self._failed_beat = self._refusal = None
        if self._is_unwritable:
            self._is_unwritable = False
            events.SESSION_HEARTBEAT_RESTORED.log(logger, "the metadata store takes signs of life again")
        # The new session has a new broker epoch, under which nothing is led until the controller
        # has unfenced it.
        if session is not self.session:
            events.SESSION_REGISTERED_AGAIN.log(
                logger,
                "the session with the cluster was lost; registered again, broker epoch %d",
                broker_epoch=session.epoch,
            )
            self._took(session)
            self._metadata.refresh()
        self._settle()

    def _report_refusal(self, error: BaseException | None) -> None:
        """Report once that the store refuses this broker: another process of the node id is alive.
        Signs of life repeat the attempt.
        """
        if type(error) is not self._refusal:
            self._refusal = type(error)
            events.REGISTRATION_FAILED.log(logger, "the broker can't register with the cluster: %s", error=error)

    def _report_unwritable(self) -> None:
        """Report once that the store, which was read just now, takes no signs of life: a process
        that is stopped in a commit to SQLite locks out the others.
        """
        if self._failed_beat is not None and not self._is_unwritable:
            self._is_unwritable = True
            events.SESSION_HEARTBEAT_FAILED.log(
                logger,
                "the metadata store takes no sign of life, serving on with what is known: %s",
                error=self._failed_beat,
            )

    # --- the record

    def _settle(self) -> None:
        """Commit the record unless it is as it should be. Called again at each sign of life."""
        record = self._wanted()
        if record is None or self._committing:
            return
        self._committing = True
        # The record of this session is there already, and only says more: the folders carry its
        # mark.
        if self.own is not None:
            self._commit(record)
            return
        # The folders are marked with both stamps before the commit, and with the new one alone
        # after it. A crash between the two leaves a mark that holds the store's stamp, whichever
        # that is.
        stamp = RegistrationStamp(record.epoch, f"{self._incarnation}-{record.epoch}")
        mark = RegistrationMark(self._identity.trusted(self._cluster.find(self._cluster.node_id)), stamp)

        def marked(error: BaseException | None) -> None:
            if error is None:
                self._identity.marked(mark)
            else:
                events.REGISTRATION_MARK_FAILED.log(
                    logger,
                    "a data folder can't be marked with broker epoch %d: %s",
                    broker_epoch=stamp.epoch,
                    error=error,
                )
            wanted = self._wanted()  # the session may be another one by now
            if wanted is None or wanted.epoch != stamp.epoch or self.own is not None:
                self._committing = False
                self._settle()
            else:
                before = self._cluster.find(self._cluster.node_id)
                self._commit(wanted, stamp if error is None else self._identity.fallback(before, stamp))

        self._mark(mark, marked)

    def _topics_changed(self, _: Mapping[str, bytes | None]) -> None:
        self._have_topics_changed = True

    def _renew_changed(self) -> None:
        if self._have_topics_changed:
            self._renew()

    def _renew(self) -> None:
        """Give the data folders a new stamp, if records were appended, or topics have changed,
        since the last one.
        """
        progress = self._process.progress()
        own = self.own
        if (progress == self._progress and not self._have_topics_changed) or own is None or self._committing:
            return
        stored = self._identity.trusted(own)
        if stored is None:
            return  # the store is of an earlier kqueue, or another image of this process registered
        self._committing = True
        self._have_topics_changed = False
        self._renewals += 1
        text = f"{self._incarnation}-{own.epoch}-{self._renewals}"
        stamp = RegistrationStamp(own.epoch, text, self._renewals)
        mark, session = RegistrationMark(stored, stamp), self.session

        def marked(error: BaseException | None) -> None:
            if error is not None or self.session is not session:
                self._committing, self._have_topics_changed = False, True
                self._settle()
                return
            self._identity.marked(mark)
            self._metadata.commit(
                "renew the stamp", {self._identity.key: self._identity.encode(stamp)}, done, by=session
            )

        def done(error: KqueueError | None) -> None:
            if error is None:
                self._progress = progress
                self._mark(RegistrationMark(stamp), _confirmed)
            else:
                self._have_topics_changed = True
            self._committing = False
            self._settle()

        self._mark(mark, marked)

    def _mark(self, mark: RegistrationMark, done: Callable[[BaseException | None], None]) -> None:
        def finish(_: None, error: BaseException | None) -> None:
            done(error)

        self._jobs.submit(IoJob("mark the data folders", lambda: self._identity.write(mark), finish, MARK_QUEUE))

    def _commit(self, record: BrokerRegistration, stamp: RegistrationStamp | None = None) -> None:
        """Args: stamp: of the data folders, to store with the record; None: it stays."""
        puts: dict[str, bytes | None] = {f"{BROKERS_PREFIX}{record.id}": record.to_bytes()}
        if stamp is not None:
            puts[self._identity.key] = self._identity.encode(stamp)
        # Before the outcome is known: a commit that seemed to fail may have been executed.
        self._attempted.add(record.epoch)

        def done(error: KqueueError | None) -> None:
            if error is None and stamp is not None:
                self._mark(RegistrationMark(stamp), _confirmed)
            self._settled(error)

        self._metadata.commit("register the broker", puts, done, by=self.session)

    def _wanted(self) -> BrokerRegistration | None:
        """Return the record to commit; None: none."""
        if self._logs is None or self.session is None:
            return None
        own = self.own
        if own is not None:
            return own._replace(shutting_down=True) if self.is_leaving and not own.shutting_down else None
        clean, outdated = self._clean_and_outdated(self._logs)
        return BrokerRegistration(
            self._cluster.node_id,
            self.session.epoch,
            self._incarnation,
            dict(self._process.listeners()),
            shutting_down=self.is_leaving,
            clean=clean,
            outdated=outdated,
            rack=self._process.rack,
            release=__version__,
            directories=self._logs.directories,
            features={feature.name: (feature.level_min, feature.level_max) for feature in FEATURES},
        )

    def _clean_and_outdated(self, logs: LogsFound) -> tuple[bool, bool]:
        """Return whether nothing is missing of what this broker confirmed, and whether its disks
        lack records that they had.
        """
        before = self._cluster.find(self._cluster.node_id)
        is_older_copy = self._identity.compare(before) is not Comparison.SAME
        if before is not None and before.incarnation == self._incarnation:
            # the same process lost its session, and nothing else; unless it is an older image of
            # its machine that goes on, while another image of it had registered
            is_clean = before.clean and before.epoch in self._attempted and not is_older_copy
            return is_clean, before.outdated or is_older_copy
        is_clean = logs.is_clean(before, is_older_copy)
        if not is_clean and not self._is_loss_reported:
            self._is_loss_reported = True
            if is_older_copy:
                events.DATA_FOLDER_OLDER_COPY.log(logger, "%s", what=self._identity.describe_older_copy())
            else:
                events.RECORDS_MAY_BE_MISSING.log(
                    logger, "records that this broker confirmed may be missing: others lead what they can"
                )
        return is_clean, logs.is_outdated(before, is_older_copy)

    def _settled(self, error: KqueueError | None) -> None:
        self._committing = False
        if error is None or isinstance(error, Conflict):  # the controller was faster
            self._settle()
        elif not isinstance(error, (SessionLost, StorageFailed)):  # those: at the next sign of life
            events.REGISTRATION_FAILED.log(logger, "the broker can't register with the cluster: %s", error=error)


def _confirmed(error: BaseException | None) -> None:
    """Handle the end of the last step: a failed one leaves a mark that holds the stamp, too."""
    if error is not None:
        events.REGISTRATION_MARK_KEPT.log(
            logger, "a data folder keeps the mark of an unconfirmed registration: %s", error=error
        )
