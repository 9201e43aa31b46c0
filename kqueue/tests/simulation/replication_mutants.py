"""Rules of replication, taken away one at a time: models that must violate an invariant."""

from __future__ import annotations

from collections.abc import Callable
from unittest.mock import patch

from kqueue.replication import controller, elections, leader_replica, reassignments
from kqueue.replication.follower_replica import FollowerReplica, Truncation
from kqueue.replication.leader_replica import UNKNOWN, LeaderReplica
from kqueue.tests.simulation.replication_model import ReplicationModel, violations

MUTANTS: dict[str, Callable[[], type[ReplicationModel]]] = {}


def mutant(make):
    MUTANTS[make.__name__] = make
    return make


def with_leader(**methods) -> type[ReplicationModel]:
    leader = type("MutantLeader", (LeaderReplica,), {"__slots__": (), **methods})
    return type("MutantModel", (ReplicationModel,), {"leader_class": leader})


def with_follower(**methods) -> type[ReplicationModel]:
    follower = type("MutantFollower", (FollowerReplica,), {"__slots__": (), **methods})
    return type("MutantModel", (ReplicationModel,), {"follower_class": follower})


def with_model(**methods) -> type[ReplicationModel]:
    return type("MutantModel", (ReplicationModel,), methods)


@mutant
def rule_01_unclean_brokers_stay_eligible():
    """Every registration says that it lost nothing."""
    return with_model(register=lambda self, node, clean: ReplicationModel.register(self, node, True))


@mutant
def rule_01_a_second_start_hides_the_first():
    return with_model(succeed=lambda self, broker, before: broker)


@mutant
def rule_02_unfenced_before_it_left_the_sets():
    return with_model(order=lambda self, fenced, topics, unfenced: [*unfenced, *fenced, *topics])


@mutant
def rule_04_any_replica_is_elected():
    """Where nobody is in sync, all count as eligible."""

    def decide(image, sessions, options):
        def elect(partition, active, min_isr):
            others = elections.elect_unclean(partition, active)._replace(recovering=False)
            return elections.elect(partition, active, min_isr) if partition.isr else others

        with patch.object(controller, "elect", elect), patch.object(controller, "is_unclean", lambda _old, _new: False):
            return controller.decide(image, sessions, options)

    return patched_decide(decide)


def patched_decide(decide):
    def control_once(self):
        with patch("kqueue.tests.simulation.replication_world.decide", decide):
            return ReplicationModel.control_once(self)

    return with_model(control_once=control_once)


@mutant
def rule_06_eligible_though_others_commit():
    """Members that left stay eligible above the minimum, and the leader does not look at them."""

    def with_isr(partition, isr, min_isr, lost=()):
        after = elections.with_isr(partition, isr, min_isr, lost)
        elr = {*partition.elr, *partition.isr} - {*after.isr, *lost}
        return after._replace(elr=tuple(node for node in after.replicas if node in elr))

    def advance(self, own_leo, min_isr):
        registration = self.registration
        self.registration = registration._replace(elr=())
        try:
            return LeaderReplica.advance(self, own_leo, min_isr)
        finally:
            self.registration = registration

    class Model(ReplicationModel):
        leader_class = type("MutantLeader", (LeaderReplica,), {"__slots__": (), "advance": advance})

        def control_once(self):
            with patch.object(controller, "with_isr", with_isr):
                return ReplicationModel.control_once(self)

        def accept(self, proposal):
            with patch.object(leader_replica, "with_isr", with_isr):
                return ReplicationModel.accept(self, proposal)

    return Model


@mutant
def rule_06_commits_while_others_are_eligible():
    """The minimum has fallen, and the leader does not wait until they have left."""

    def advance(self, own_leo, min_isr):
        registration = self.registration
        self.registration = registration._replace(elr=())
        try:
            return LeaderReplica.advance(self, own_leo, min_isr)
        finally:
            self.registration = registration

    return with_leader(advance=advance)


@mutant
def rule_09_the_epoch_stays_where_a_replica_leaves():
    """So the leader remembers a follower that has deleted its log in between."""

    def raise_epochs(before, after):
        made = elections.raise_epochs(before, after)
        is_same = made is before or made.leader != before.leader
        return made if is_same else made._replace(leader_epoch=before.leader_epoch)

    class Model(ReplicationModel):
        def control_once(self):
            with patch.object(controller, "raise_epochs", raise_epochs):
                return ReplicationModel.control_once(self)

        def reassign(self):
            with patch.object(reassignments, "raise_epochs", raise_epochs):
                return ReplicationModel.reassign(self)

    return Model


@mutant
def rule_07_any_partition_epoch_is_accepted():
    def accept(self, proposal):
        epoch = self.partition.partition_epoch
        return ReplicationModel.accept(self, proposal._replace(partition_epoch=epoch))

    return with_model(accept=accept)


@mutant
def rule_09_followers_are_remembered():
    """A leader starts with what it knew of its followers in an epoch before."""

    def become_leader(self, node, registration):
        states = getattr(self, "states", None) or {}
        self.states = states
        ReplicationModel.become_leader(self, node, registration)
        before = states.get(node.id)
        if before is not None:
            node.leader.followers = before
        states[node.id] = node.leader.followers

    return with_model(become_leader=become_leader)


@mutant
def rule_10_a_follower_truncates_to_its_high_watermark():
    def become_follower(self, node, registration):
        node.truncate(node.high_watermark)
        ReplicationModel.become_follower(self, node, registration)

    def apply(self, node):
        before = None if node.follower is None else node.follower.leader_epoch
        ReplicationModel.apply(self, node)
        if node.follower is not None and before not in (None, node.follower.leader_epoch):
            node.truncate(node.high_watermark)

    return with_model(become_follower=become_follower, apply=apply)


@mutant
def rule_15_any_leader_epoch_is_answered():
    return with_leader(check_epoch=lambda self, leader_epoch: None)


@mutant
def rule_15_an_older_broker_epoch_is_recorded():
    def fetched(self, fetch, end_of_epoch, log_end, now_ms):
        follower = self.followers.get(fetch.node_id)
        if follower is not None:
            follower.broker_epoch = UNKNOWN
        return LeaderReplica.fetched(self, fetch, end_of_epoch, log_end, now_ms)

    return with_leader(fetched=fetched)


@mutant
def rule_16_logs_are_not_compared():
    return with_leader(diverging=lambda self, offset, last_epoch, end_of_epoch: None)


@mutant
def rule_18_any_answer_is_accepted():
    return with_follower(accepts=lambda self, fetch, log_end, last_epoch: fetch.offset == log_end)


@mutant
def rule_18_not_compared_by_epoch():
    """An answer of the same leader epoch and offset, to an earlier fetch."""

    def accepts(self, fetch, log_end, last_epoch):
        return fetch.leader_epoch == self.leader_epoch and fetch.offset == log_end

    return with_follower(accepts=accepts)


@mutant
def rule_19_truncates_to_the_leaders_end_only():
    def truncation(self, diverging, end_of_epoch, log_end, high_watermark):
        return Truncation(min(diverging[1], log_end), False)

    return with_follower(truncation=truncation)


@mutant
def rule_21_followers_do_not_flush():
    return with_model(before_fetch=lambda self, node: None)


@mutant
def rule_21_the_leader_counts_what_is_not_flushed():
    return with_model(own_end=lambda self, node: len(node.log))


@mutant
def rule_22_commits_below_the_minimum():
    def advance(self, own_leo, min_isr):
        registration = self.registration
        self.registration = registration._replace(elr=())
        try:
            return LeaderReplica.advance(self, own_leo, 1)
        finally:
            self.registration = registration

    return with_leader(advance=advance)


@mutant
def rule_22_commits_what_some_have():
    """The in-sync set is counted without its slowest member."""

    def advance(self, own_leo, min_isr):
        ends = sorted([own_leo, *(self.followers[node].leo for node in self.maximal_isr if node in self.followers)])
        if self.registration.elr or self.is_under_min_isr(min_isr) or ends[1:] <= [self.high_watermark]:
            return False
        self.high_watermark = ends[1]
        return True

    return with_leader(advance=advance)


@mutant
def rule_25_joins_below_the_start_of_the_epoch():
    def _joining(self, active):
        leso, self.leso = self.leso, 0
        try:
            return LeaderReplica._joining(self, active)
        finally:
            self.leso = leso

    return with_leader(_joining=_joining)


@mutant
def rule_25_joins_below_the_high_watermark():
    def _joining(self, active):
        high_watermark, self.high_watermark = self.high_watermark, 0
        try:
            return LeaderReplica._joining(self, active)
        finally:
            self.high_watermark = high_watermark

    return with_leader(_joining=_joining)


@mutant
def rule_26_new_members_count_when_they_are_in():
    def proposal(self, *arguments):
        made = LeaderReplica.proposal(self, *arguments)
        self.maximal_isr = frozenset(self.registration.isr)
        return made

    return with_leader(proposal=proposal)


@mutant
def rule_27_any_broker_epoch_is_added():
    """The store does not compare it; nor whether the broker is fenced."""

    def accept(self, proposal):
        return leader_replica.accept_proposal(self.partition, proposal._replace(added={}), {}, 2)

    return with_model(accept=accept)


@mutant
def rule_28_rolls_back_what_may_still_come():
    return with_leader(unknown=LeaderReplica.rejected)


@mutant
def a_fenced_broker_leads():
    return with_model(may_lead=lambda self, node, broker: True)


SEEDS_MAX = 50_000


def main() -> None:
    """Print the first seed that finds each mutant: the table of `test_replication_model.py`."""
    for name, make in MUTANTS.items():
        seed_found = next((seed for seed, violated in violations(range(SEEDS_MAX), model=make()) if violated), None)
        print(f'    "{name}": {seed_found},', flush=True)


if __name__ == "__main__":
    main()
