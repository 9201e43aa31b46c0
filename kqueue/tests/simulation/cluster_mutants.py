"""Rules of a cluster, taken away from the brokers one at a time: a simulation must find each.

python -m kqueue.tests.simulation.cluster_mutants --jobs 2
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager
from unittest.mock import patch

import click

from kqueue.broker.cluster import controller as broker_controller
from kqueue.broker.cluster import isr_changes
from kqueue.broker.cluster.folder_identity import FolderIdentity
from kqueue.broker.cluster.registration import LogsFound
from kqueue.broker.coordinators import coordinator_loads, internal_topic_log
from kqueue.broker.metadata.cluster_cache import ClusterMetadata
from kqueue.broker.replicas import partition, replica
from kqueue.broker.replicas.log_follower import LogFollower
from kqueue.broker.replicas.partition import Partition
from kqueue.broker.replicas.partition_host import PartitionRead
from kqueue.groups.coordinator import GroupCoordinator
from kqueue.interbroker import replica_fetcher, replica_fetchers
from kqueue.interbroker.errors import PeerError
from kqueue.interbroker.transactions import PeerTransactions
from kqueue.log.folders.registration_mark import Comparison
from kqueue.log.log import Log
from kqueue.log.producer_state import ProducerStateManager
from kqueue.replication import controller, elections, leader_replica
from kqueue.replication.follower_replica import FollowerReplica, Truncation
from kqueue.replication.leader_replica import LeaderReplica
from kqueue.tests.simulation.cluster_simulation import STEPS, run_seeds
from kqueue.tests.simulation.simulated_store import SharedStore

Mutant = Callable[[], AbstractContextManager[object]]
MUTANTS: dict[str, Mutant] = {}
SEEDS = 20_000


def mutant(make: Mutant) -> Mutant:
    MUTANTS[make.__name__] = make
    return make


def first_seed(name: str, seeds: range, steps: int = STEPS) -> tuple[int, str] | None:
    """Return the first seed that finds a mutant, and what it violates; None: no seed does."""
    with MUTANTS[name]():
        return next(((seed, violated) for seed, violated in run_seeds(seeds, steps) if violated), None)


@mutant
def rule_01_unclean_brokers_stay_eligible():
    """Every registration says that it lost nothing."""
    return patch.object(LogsFound, "is_clean", lambda self, before, is_older_copy=False: True)


@mutant
def rule_01_an_older_copy_of_a_folder_leads():
    """Data folders are not compared with the store."""
    return patch.object(FolderIdentity, "compare", lambda self, before: Comparison.SAME)


@mutant
def rule_02_unfenced_before_it_left_the_sets():
    """A broker is unfenced before the topics change."""

    def parts(self, decision):
        yield from self._brokers_part(decision.unfenced)
        yield from original(self, decision._replace(unfenced=()))

    original = broker_controller._Look._parts
    return patch.object(broker_controller._Look, "_parts", parts)


@mutant
def rule_03_a_fenced_broker_stays_in_sync():
    """Brokers are fenced, and no topic changes."""

    def decide(*arguments):
        return controller.decide(*arguments)._replace(topics={})

    return patch.object(broker_controller, "decide", decide)


@mutant
def rule_04_any_replica_is_elected():
    def elect(partition, active, min_isr):
        if not any(node in active for node in partition.isr):
            return elections.elect_unclean(partition, active)._replace(recovering=False)
        return elections.elect(partition, active, min_isr)

    return patch.object(controller, "elect", elect)


@mutant
def rule_04_the_leader_epoch_stays():
    def raise_epochs(before, after):
        return elections.raise_epochs(before, after)._replace(leader_epoch=before.leader_epoch)

    return patch.object(controller, "raise_epochs", raise_epochs)


@mutant
def rule_06_others_stay_eligible():
    """Members that left stay eligible above the minimum, and the leader does not look at them."""

    def with_isr(partition, isr, min_isr, lost=()):
        after = elections.with_isr(partition, isr, min_isr, lost)
        elr = {*partition.elr, *partition.isr} - {*after.isr, *(lost or ())}
        return after._replace(elr=tuple(node for node in after.replicas if node in elr))

    return _all(
        patch.object(controller, "with_isr", with_isr),
        patch.object(leader_replica, "with_isr", with_isr),
        _commits_with_eligible(lambda min_isr: min_isr),
    )


def _commits_with_eligible(of_min_isr) -> AbstractContextManager[object]:
    """Leaders commit though others are eligible, from another minimum on."""

    def advance(self, own_leo, min_isr):
        registration = self.registration
        self.registration = registration._replace(elr=())
        try:
            return original(self, own_leo, of_min_isr(min_isr))
        finally:
            self.registration = registration

    original = LeaderReplica.advance
    return patch.object(LeaderReplica, "advance", advance)


@mutant
def rule_07_commits_compare_nothing():
    def commit(self, guards, puts, deletes, *, by=None):
        return original(self, {}, puts, deletes, by=by)

    original = SharedStore.commit
    return patch.object(SharedStore, "commit", commit)


@mutant
def rule_09_a_fenced_broker_leads():
    """It leads what it led in a former life, or another session."""

    def settle(current, is_new, may_lead):
        return original(current, is_new, True)

    original = replica._settle
    return patch.object(replica, "_settle", settle)


@mutant
def rule_10_a_follower_truncates_to_its_high_watermark():
    def apply(self, registration):
        before = self.leader_epoch if self.replica.key is not None else -1
        original(self, registration)
        if self._log is not None and not self.is_leader and self.leader_epoch != before:
            self._log.truncate_to(self.high_watermark)
            self.log_was_cut(self._log)

    original = Partition.apply
    return patch.object(Partition, "apply", apply)


@mutant
def rule_12_confirmed_before_it_is_committed():
    return patch.object(Partition, "is_committed", lambda self, offset: True)


@mutant
def rule_15_any_leader_epoch_is_answered():
    return _all(
        patch.object(LeaderReplica, "check_epoch", lambda self, leader_epoch: None),
        patch.object(Partition, "check_leader_epoch", lambda self, epoch: None),
    )


@mutant
def rule_16_logs_are_not_compared():
    return patch.object(LeaderReplica, "diverging", lambda self, offset, last_epoch, end_of_epoch: None)


@mutant
def rule_18_any_answer_is_accepted():
    """Of a fetch session that was ended, too."""

    def accepts(self, fetch, log_end, last_epoch):
        return True

    return patch.object(FollowerReplica, "accepts", accepts)


@mutant
def rule_19_truncates_to_the_leaders_end_only():
    def truncation(self, diverging, end_of_epoch, log_end, high_watermark):
        return Truncation(min(diverging[1], log_end), False)

    return patch.object(FollowerReplica, "truncation", truncation)


@mutant
def rule_20_begins_with_the_log_end():
    """The high watermark of a restart is the log end, not the checkpoint."""

    return patch.object(replica, "_checkpointed_end", lambda log, checkpointed: log.end_offset)


@mutant
def rule_20_the_high_watermark_is_not_bounded_by_the_log():
    def raise_high_watermark(self, leaders):
        watermark = self._partition.watermark
        watermark.advance(max(leaders, watermark.value))

    return patch.object(LogFollower, "raise_high_watermark", raise_high_watermark)


@mutant
def rule_21_followers_do_not_flush():
    def init(self, *arguments):
        original(self, *arguments)
        self.flush_before_fetch = False

    original = replica_fetchers.ReplicaFetchers.__init__
    return patch.object(replica_fetchers.ReplicaFetchers, "__init__", init)


@mutant
def rule_21_the_leader_counts_what_is_not_flushed():
    return patch.object(Log, "flushed_offset", property(lambda self: self.end_offset))


@mutant
def rule_22_commits_below_the_minimum():
    return _commits_with_eligible(lambda min_isr: 1)


@mutant
def rule_22_commits_what_some_have():
    """The in-sync set is counted without its slowest member."""

    def advance(self, own_leo, min_isr):
        ends = sorted([own_leo, *(self.followers[node].leo for node in self.maximal_isr if node in self.followers)])
        if self.registration.elr or self.is_under_min_isr(min_isr) or ends[1:] <= [self.high_watermark]:
            return False
        self.high_watermark = ends[1]
        return True

    return patch.object(LeaderReplica, "advance", advance)


@mutant
def rule_23_consumers_read_what_is_not_committed():
    def read(self, offset, max_bytes, *, read_committed=False, min_one_batch=True):
        log = self.log
        fetched = log.read(offset, max_bytes, end_offset=log.end_offset, min_one_batch=min_one_batch)
        stable = log.last_stable_offset(self.high_watermark)
        return PartitionRead(self.high_watermark, stable, log.start_offset, fetched)

    return patch.object(Partition, "read", read)


@mutant
def rule_25_joins_at_any_offset():
    def joining(self, active):
        return {
            node: follower.broker_epoch
            for node, follower in self.followers.items()
            if follower.leo >= 0 and node not in self.registration.isr and active.get(node) == follower.broker_epoch
        }

    return _all(
        patch.object(LeaderReplica, "_joining", joining),
        patch.object(isr_changes.IsrChanges, "consider", lambda self, partition: self.want(partition)),
    )


@mutant
def rule_26_new_members_count_when_they_are_in():
    def proposal(self, *arguments):
        made = original(self, *arguments)
        self.maximal_isr = frozenset(self.registration.isr)
        return made

    original = LeaderReplica.proposal
    return patch.object(LeaderReplica, "proposal", proposal)


@mutant
def rule_28_rolls_back_what_may_still_come():
    return patch.object(LeaderReplica, "unknown", LeaderReplica.rejected)


@mutant
def older_metadata_replace_newer():
    """A broker applies any registration (rule 8), and takes over each answer of the store."""

    def apply(current, registration, now_ms, *, may_lead=True):
        current.key.registration = current.registration._replace(partition_epoch=-1)
        return original(current, registration, now_ms, may_lead=may_lead)

    original = replica.apply
    return _all(
        patch.object(partition, "apply", apply),
        patch.object(LeaderReplica, "applied", lambda self, registration, now_ms: True),
    )


@mutant
def a_failed_fetch_is_not_repeated():
    return patch.object(replica_fetcher.ReplicaFetcher, "_restart_session", lambda self: None)


@mutant
def metadata_are_not_read_again_after_an_error():
    def refreshed(self, unshown, changes, error):
        self._refreshing = False
        if changes is not None:
            original(self, unshown, changes, error)

    original = ClusterMetadata._refreshed
    return patch.object(ClusterMetadata, "_refreshed", refreshed)


@mutant
def repeated_batches_are_appended():
    """Idempotent producers get no duplicate for a batch that is in the log."""
    return patch.object(ProducerStateManager, "check", lambda self, header, *, client=True: None)


@mutant
def transactions_are_read_while_they_are_open():
    return patch.object(Log, "last_stable_offset", lambda self, high_watermark: high_watermark)


@mutant
def coordinators_confirm_what_is_not_committed():
    return patch.object(internal_topic_log, "is_committed", lambda partition, offset: True)


@mutant
def coordinators_load_nothing():
    def load(self, load):
        yield from load.source.coordinator.load(load.partition.index, ())

    return patch.object(coordinator_loads.CoordinatorLoads, "_steps", load)


@mutant
def coordinators_keep_what_others_changed():
    """A broker that leads a partition of offsets once more adds to what it had in memory."""

    def unload(self, partition):
        yield None

    return patch.object(GroupCoordinator, "unload", unload)


@mutant
def markers_without_an_answer_are_not_sent_again():
    """The coordinator takes them for written."""

    def markers_written(self, markers, outcome):
        if isinstance(outcome, PeerError):
            for each in markers:
                each.done(dict.fromkeys(each.marker.partitions, None))
        else:
            original(self, markers, outcome)

    original = PeerTransactions._markers_written
    return patch.object(PeerTransactions, "_markers_written", markers_written)


@mutant
def a_full_disk_ends_a_load():
    return patch.object(coordinator_loads.CoordinatorLoads, "_delay", coordinator_loads.CoordinatorLoads._end)


@mutant
def rule_19_the_epoch_cache_is_not_trimmed():
    """A failed append leaves its epoch, and a truncation at the log end changes nothing."""

    def write(self, buf, header, last_offset, leader_epoch):
        if leader_epoch != self.epochs.latest:
            self.epochs.assign(leader_epoch, last_offset - header.last_offset_delta)
        original(self, buf, header, last_offset, leader_epoch)

    def truncate_to(self, offset):
        if offset < self.end_offset:
            truncate(self, offset)

    original, truncate = Log._write, Log.truncate_to
    return _all(patch.object(Log, "_write", write), patch.object(Log, "truncate_to", truncate_to))


@contextlib.contextmanager
def _all(*patches: AbstractContextManager[object]) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for each in patches:
            stack.enter_context(each)
        yield


def _search(name: str, seeds: int, steps: int) -> tuple[int, str] | None:
    return first_seed(name, range(seeds), steps)


@click.command()
@click.option("--seeds", default=SEEDS, help="Give up after so many.")
@click.option("--steps", default=STEPS, help="Steps of each seed.")
@click.option("--jobs", default=1, help="Processes.")
@click.option("--only", multiple=True, help="Only mutants whose names contain this.")
def main(seeds: int, steps: int, jobs: int, only: tuple[str, ...]) -> None:
    """Print the first seed that finds each mutant, as a table."""
    names = [name for name in MUTANTS if not only or any(part in name for part in only)]
    missed = []
    with ProcessPoolExecutor(jobs) as pool:
        count = len(names)
        for name, result in zip(names, pool.map(_search, names, [seeds] * count, [steps] * count), strict=True):
            if result is None:
                missed.append(name)
                continue
            seed, violated = result
            click.echo(f"| {name.replace('_', ' ')} | {seed:,} | {violated.strip().splitlines()[-1][:90]} |")
    if missed:
        raise click.ClickException(f"no seed found {', '.join(missed)}")


if __name__ == "__main__":
    main()
