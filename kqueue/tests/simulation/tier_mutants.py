"""Rules of tiered storage, taken away from the brokers one at a time: a simulation must find each.

python -m kqueue.tests.simulation.tier_mutants
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from types import SimpleNamespace
from unittest.mock import patch

import click

from kqueue.broker.cluster import isr_changes
from kqueue.broker.replicas.log_follower import LogFollower
from kqueue.broker.replicas.replica import LeadingReplica
from kqueue.broker.tier import copies, leader_tasks
from kqueue.broker.tier.adoptions import Adoptions
from kqueue.broker.tier.leader_tasks import LeaderTasks
from kqueue.broker.tier.tier_manager import TierManager
from kqueue.broker.upkeep import log_recovery
from kqueue.broker.upkeep.cleanup_scheduler import CleanupScheduler
from kqueue.log.log_cut import RestartState
from kqueue.tests.simulation.cluster_simulation import STEPS, run_seeds
from kqueue.tests.simulation.tier_simulation import TierSimulation
from kqueue.tier.errors import ObjectChanged
from kqueue.tier.formats.fields import EPOCH_MAX, OFFSET_MAX
from kqueue.tier.lineage import Lineage
from kqueue.tier.manifest import Manifest
from kqueue.tier.reader import TierReader

Mutant = Callable[[], AbstractContextManager[object]]
MUTANTS: dict[str, Mutant] = {}
SEEDS = 1000


def mutant(make: Mutant) -> Mutant:
    MUTANTS[make.__name__] = make
    return make


def first_seed(name: str, seeds: range, steps: int = STEPS) -> tuple[int, str] | None:
    """Return the first seed that finds a mutant, and what it violates; None: no seed does."""
    with MUTANTS[name]():
        return next(((seed, violated) for seed, violated in run_seeds(seeds, steps, TierSimulation) if violated), None)


@mutant
def leaders_of_older_epochs_write():
    original = Manifest._change
    return patch.object(Manifest, "_change", lambda self, leader_epoch, change: original(self, EPOCH_MAX, change))


@mutant
def uncommitted_segments_are_copied():
    def next_to_copy(partition):
        return original(SimpleNamespace(log=partition.log, last_stable_offset=partition.log_end_offset))

    original = copies.next_to_copy
    return patch.object(leader_tasks, "next_to_copy", next_to_copy)


@mutant
def a_claim_cuts_nothing():
    """What the leader's log contradicts stays in the tier."""
    return patch.object(Manifest, "_cut_newest", lambda self, leader_epoch, lineage: False)


@mutant
def a_claim_leaves_announced_copies():
    return patch.object(Manifest, "_abandon_copies", lambda self, leader_epoch: None)


@mutant
def a_segment_counts_before_its_object_is_there():
    def begin_copy(self, leader_epoch, segment):
        original(self, leader_epoch, segment)
        self.finish_copy(leader_epoch, segment)

    original = Manifest.begin_copy
    return patch.object(Manifest, "begin_copy", begin_copy)


@mutant
def objects_are_deleted_before_the_manifest_says_so():
    def delete_below_start(self, leader_epoch):
        removed = self._oldest_below(self.root.log_start_offset)
        self._store.delete([segment.key(self.partition) for segment in removed])
        return original(self, leader_epoch)

    original = Manifest.delete_below_start
    return patch.object(Manifest, "delete_below_start", delete_below_start)


@mutant
def objects_are_forgotten_before_they_are_deleted():
    def finish_deletion(self, leader_epoch):
        keys = self.root.deleting
        self._change(leader_epoch, lambda root: root.next(deleting=()) if root.deleting else None)
        if keys:
            self._store.delete(keys)

    return patch.object(Manifest, "finish_deletion", finish_deletion)


@mutant
def disks_lose_what_the_tier_lacks():
    """Local retention does not ask what the tier has."""

    def drop(self, partition, topic, drop, *done):
        if drop.local:
            partition.log.tiered_end = partition.log.end_offset
        original(self, partition, topic, drop, *done)

    original = CleanupScheduler._drop
    return patch.object(CleanupScheduler, "_drop", drop)


@mutant
def followers_take_all_of_the_tier_for_theirs():
    """They do not compare its leader epochs with those of their logs."""
    return patch.object(Lineage, "agreed_end", lambda self, segments, start: OFFSET_MAX)


@mutant
def disks_lose_what_the_tier_had_in_another_leader_epoch():
    """A new leader, or follower, does not forget what the tier had before it."""
    return patch.object(TierManager, "_forget_end", lambda self, partition: None)


@mutant
def all_of_the_tier_is_served():
    """Also what the log of the leader contradicts, before the tier is claimed."""
    return patch.object(Manifest, "agreeing", lambda self, lineage: self)


@mutant
def a_lost_answer_is_not_read_again():
    def failed(self, state, epoch, error):
        if isinstance(error, ObjectChanged):
            self._host.failed(state, error)
        else:
            original(self, state, epoch, error)

    original = LeaderTasks._failed
    return patch.object(LeaderTasks, "_failed", failed)


@mutant
def followers_restart_at_the_log_start():
    """Not where their leader's disk begins."""

    def restart_at(self, offset, done, state=None):
        original(self, 0, done, RestartState(0, (), b""))

    original = LogFollower.restart_at
    return patch.object(LogFollower, "restart_at", restart_at)


@mutant
def the_log_start_is_raised_on_the_disk_only():
    return patch.object(Manifest, "raise_start", lambda self, leader_epoch, offset: None)


@mutant
def empty_leaders_do_not_ask_the_tier():
    return patch.object(Adoptions, "begin", lambda self, partition: None)


@mutant
def the_tier_knows_no_aborted_transactions():
    return patch.object(TierReader, "aborted", lambda self, manifest, start_offset, end_offset: ([], False))


@mutant
def sealed_segments_are_not_flushed():
    """With `kqueue.flush=kafka` the last ones of an idle log are never copied."""
    return patch.object(LeaderTasks, "_flush", lambda self, state, offset: None)


@mutant
def a_recovering_leader_fails_all_proposals():
    """It leads while its log is not open; the error of asking for the end of that ends the turn."""
    stack = contextlib.ExitStack()
    stack.enter_context(patch.object(isr_changes, "KqueueError", type("_Nothing", (Exception,), {})))
    stack.enter_context(patch.object(LeadingReplica, "log_detached", lambda self: None))
    return stack


@mutant
def a_batch_around_the_log_start_is_refused():
    return patch.object(LogFollower, "lacks_begin_of", lambda self, records: False)


@mutant
def a_folder_that_failed_at_the_start_is_not_listed():
    return patch.object(log_recovery, "_Folder", partial(log_recovery._Folder, is_measured=False))


@click.command()
@click.option("--seeds", default=SEEDS, help="Give up after so many.")
@click.option("--steps", default=STEPS, help="Steps of each seed.")
@click.option("--only", multiple=True, help="Only mutants whose names contain this.")
def main(seeds: int, steps: int, only: tuple[str, ...]) -> None:
    """Print the first seed that finds each mutant, as a table."""
    missed = []
    for name in MUTANTS:
        if only and not any(part in name for part in only):
            continue
        result = first_seed(name, range(seeds), steps)
        if result is None:
            missed.append(name)
            continue
        seed, violated = result
        click.echo(f"| {name.replace('_', ' ')} | {seed:,} | {violated.strip().splitlines()[-1][:90]} |")
    if missed:
        raise click.ClickException(f"no seed found {', '.join(missed)}")


if __name__ == "__main__":
    main()
