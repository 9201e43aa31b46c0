"""The decisions of the controller: by table, and as a state machine that must come to rest."""

from hypothesis import given, settings
from hypothesis import strategies as st

from kqueue.replication.controller import DecisionOptions, balance_leaders, decide
from kqueue.replication.registrations import NO_LEADER, ClusterImage, PartitionRegistration
from kqueue.tests.replication.support import broker, brokers, image, topic
from kqueue.tests.steps import steps
from kqueue.tests.tables import for_each
from kqueue.tests.thorough import examples

P = PartitionRegistration
MIN_2 = DecisionOptions(min_isr=2)
ALL = {1: 1, 2: 1, 3: 1}


def applied(before: ClusterImage, decision) -> ClusterImage:
    registered = {**before.brokers, **{each.id: each for each in (*decision.fenced, *decision.unfenced)}}
    return ClusterImage(registered, {**before.topics, **decision.topics})


def decided(partition, registered, sessions=ALL, options=MIN_2, **configs):
    """Return the decision on one partition, and the partition after it."""
    decision = decide(image(registered, t=topic(partition, **configs)), sessions, options)
    return decision, (decision.topics["t"].partitions[0] if decision.topics else partition)


def test_nothing_is_decided_where_all_is_well() -> None:
    decision, _ = decided(P((1, 2, 3), (1, 2), 2, 4, 9), brokers(1, 2, 3))
    assert not decision
    assert decision == ((), {}, (), (), ())


def test_a_broker_without_session_is_fenced_and_replaced() -> None:
    decision, after = decided(P((1, 2, 3), (1, 2, 3), 1), brokers(1, 2, 3), {2: 1, 3: 1})
    assert decision.fenced == (broker(1, fenced=True),)
    assert after == P((1, 2, 3), (2, 3), 2, 1, 1)
    assert not decision.unfenced
    assert decision.lines == (
        "broker 1 (epoch 1) is fenced: its session has ended",
        "t-0: leader 1 -> 2 (epoch 1), in sync [1,2,3] -> [2,3]",
    )


def test_a_session_of_another_epoch_is_none() -> None:
    decision, _ = decided(P((1, 2), (1, 2), 1), brokers(1, 2), {1: 2, 2: 1})
    assert [each.id for each in decision.fenced] == [1]


@for_each(
    "registered, sessions, partition, isr, elr, leader",
    [
        # fenced, with a session: leaves the sets before it is unfenced; clean, and eligible
        ({1: broker(1, fenced=True), 2: broker(2)}, {1: 1, 2: 1}, P((1, 2), (1, 2), 1), (2,), (1,), 2),
        # it may lack records: rule 1
        ({1: broker(1, fenced=True, clean=False), 2: broker(2)}, {1: 1, 2: 1}, P((1, 2), (1, 2), 1), (2,), (), 2),
        (
            {1: broker(1, fenced=True, clean=False), 2: broker(2)},
            {1: 1, 2: 1},
            P((1, 2), (2,), 2, elr=(1,)),
            (2,),
            (),
            2,
        ),
        # all are gone
        (brokers(1, 2), {}, P((1, 2), (1, 2), 1), (), (1, 2), -1),
        # an eligible one is back
        ({1: broker(1, fenced=True), 2: broker(2)}, {2: 1}, P((1, 2), (), -1, elr=(1, 2)), (2,), (1,), 2),
        # nobody knows it any more
        ({2: broker(2)}, {2: 1}, P((1, 2), (1, 2), 1), (2,), (1,), 2),
        # controlled shutdown: the leader moves, and leaves where others remain
        ({1: broker(1, shutting_down=True), 2: broker(2)}, {1: 1, 2: 1}, P((1, 2), (1, 2), 1), (2,), (1,), 2),
        ({1: broker(1, shutting_down=True), 2: broker(2)}, {1: 1, 2: 1}, P((1, 2), (1,), 1), (1,), (), 1),
        ({1: broker(1, shutting_down=True), 2: broker(2)}, {1: 1, 2: 1}, P((1, 2), (1, 2), 2), (2,), (1,), 2),
    ],
)
def test_sets_and_leaders(registered, sessions, partition, isr, elr, leader) -> None:
    _, after = decided(partition, registered, sessions)
    assert (after.isr, after.elr, after.leader) == (isr, elr, leader)
    assert after.leader_epoch == (after.leader != partition.leader)
    assert after.partition_epoch == (after != partition)


def test_an_unfenced_broker_is_clean_from_then_on() -> None:
    decision, _ = decided(P((2, 3), (2, 3), 2), {**brokers(2, 3), 1: broker(1, fenced=True, clean=False)})
    assert decision.unfenced == (broker(1),)
    assert decision.lines == ("broker 1 (epoch 1) is unfenced",)


def test_a_broker_that_shuts_down_is_not_unfenced() -> None:
    assert not decided(P((2,), (2,), 2), {**brokers(2), 1: broker(1, fenced=True, shutting_down=True)})[0]


def test_the_only_replica_leads_again_after_it_lost_records() -> None:
    before = image({1: broker(1, epoch=2, fenced=True, clean=False)}, t=topic(P((1,), (1,), 1)))
    first = decide(before, {1: 2})
    assert first.topics["t"].partitions[0] == P((1,), (), NO_LEADER, 1, 1, last_known_leader=1)
    assert not first.unclean_elections
    second = decide(applied(before, first), {1: 2})
    assert second.topics["t"].partitions[0] == P((1,), (1,), 1, 2, 2, recovering=True)
    assert second.unclean_elections == (("t", 0),)


@for_each(
    "options, configs, leader",
    [
        (MIN_2, {}, NO_LEADER),
        (MIN_2, {"unclean_leader_election_enable": "true"}, 3),
        (MIN_2._replace(unclean_elections=True), {}, 3),
        (MIN_2._replace(unclean_elections=True), {"unclean_leader_election_enable": "false"}, NO_LEADER),
    ],
)
def test_an_unclean_election_where_it_is_allowed(options, configs, leader) -> None:
    """Rule 5: logged, counted, with what is lost."""
    partition = P((1, 2, 3), (), NO_LEADER, elr=(1, 2))
    gone = {1: broker(1, fenced=True), 2: broker(2, fenced=True), 3: broker(3)}
    decision, after = decided(partition, gone, {3: 1}, options, **configs)
    assert after.leader == leader
    assert decision.unclean_elections == ((("t", 0),) if leader == 3 else ())
    if leader == 3:
        assert (after.isr, after.elr, after.recovering) == ((3,), (), True)
        assert "unclean election: records that only broker(s) [1,2] have are lost" in decision.lines[0]


def test_a_reassignment_is_finished() -> None:
    moving = P((2, 3, 1), (2, 3, 1), 1, adding=(3,), removing=(1,))
    decision, after = decided(moving, brokers(1, 2, 3))
    assert after == P((2, 3), (2, 3), 2, 1, 1)
    assert "the reassignment is complete, replicas [2,3,1] -> [2,3]" in decision.lines[0]
    waiting = moving._replace(isr=(2, 1))
    assert decided(waiting, brokers(1, 2, 3))[1] == waiting


def test_lines_are_bounded() -> None:
    many = topic(*[P((1, 2), (1, 2), 1)] * 50)
    decision = decide(image(brokers(1, 2), t=many), {2: 1}, DecisionOptions(lines_max=10))
    assert len(decision.lines) == 11
    assert decision.lines[-1] == "and 41 more changes"


def test_only_changed_topics_are_looked_at_unless_brokers_changed() -> None:
    leaderless = topic(P((1, 2), (1, 2), NO_LEADER))
    both = image(brokers(1, 2), a=leaderless, b=leaderless)
    assert decide(both, {1: 1, 2: 1}, topics=["a", "gone"]).topics.keys() == {"a"}
    assert decide(both, {1: 1}, topics=["a"]).topics.keys() == {"a", "b"}


def test_leaders_go_back_to_preferred_brokers_above_the_percentage() -> None:
    led, away = P((1, 2), (1, 2), 1), P((1, 2), (1, 2), 2)
    behind = P((1, 2), (2,), 2)
    before = image(brokers(1, 2), t=topic(led, led, led, away), u=topic(behind))
    assert not balance_leaders(before, 40)
    decision = balance_leaders(before, 39)
    assert decision.topics["t"].partitions == (led, led, led, P((1, 2), (1, 2), 1, 1, 1))
    assert "u" not in decision.topics
    assert decision.lines == ("t-3: leader 2 -> 1 (epoch 1)",)
    fenced = before._replace(brokers={1: broker(1, fenced=True), 2: broker(2)})
    assert not balance_leaders(fenced, 0)


# --- any state

nodes = st.integers(1, 4)


@st.composite
def partitions(draw) -> PartitionRegistration:
    replicas = tuple(draw(st.lists(nodes, unique=True, min_size=1)))
    states = [draw(st.sampled_from(["isr", "elr", ""])) for _ in replicas]
    isr = tuple(node for node, state in zip(replicas, states, strict=True) if state == "isr")
    elr = tuple(node for node, state in zip(replicas, states, strict=True) if state == "elr")
    leader = draw(st.sampled_from([NO_LEADER, *isr]))
    last = draw(st.sampled_from([NO_LEADER, *replicas])) if leader == NO_LEADER else NO_LEADER
    moving = draw(st.sampled_from([(), replicas[:1], replicas[1:2]]))
    adding = moving if draw(st.booleans()) and moving != replicas else ()
    removing = moving if not adding and moving != replicas else ()
    others = [node for node in replicas if node not in (*isr, *elr, last)] if leader == NO_LEADER else []
    killed = tuple(draw(st.lists(st.sampled_from(others), unique=True))) if others else ()
    return P(replicas, isr, leader, 3, 5, elr, last, adding, removing, last_known_elr=killed)


registered_brokers = st.dictionaries(nodes, st.tuples(*[st.booleans()] * 4)).map(
    lambda flags: {
        node: broker(
            node,
            fenced=fenced,
            shutting_down=stops,
            clean=clean or not fenced,
            outdated=outdated and fenced and not clean,
        )
        for node, (fenced, stops, clean, outdated) in flags.items()
    }
)


@settings(max_examples=examples(500))
@given(partitions(), registered_brokers, st.sets(nodes), st.booleans())
def test_decisions_come_to_rest_and_lose_nothing(partition, registered, live, unclean) -> None:
    sessions = dict.fromkeys(live, 1)
    options = DecisionOptions(min_isr=2, unclean_elections=unclean)
    now = image(registered, t=topic(partition))
    for _ in range(4):
        decision = decide(now, sessions, options)
        if not decision:
            break
        lost = {node for node, each in now.brokers.items() if each.fenced and not each.clean}
        before, now = now.topics["t"].partitions[0], applied(now, decision)
        candidates = (before.last_known_leader, *before.last_known_elr)
        after = now.topics["t"].partitions[0]
        if after is not before:
            assert after.partition_epoch == before.partition_epoch + 1
            assert after.leader_epoch >= before.leader_epoch + (after.leader != before.leader)
        if after.leader not in (NO_LEADER, before.leader):
            was_safe = after.leader in before.isr or after.leader in before.elr
            was_last = {*before.isr, *before.elr} <= lost and after.leader in candidates
            assert was_safe or unclean or was_last
            assert decision.unclean_elections == (() if was_safe else (("t", 0),))
            assert now.brokers[after.leader].is_active
        assert after.leader == NO_LEADER or after.leader in after.isr
        for node in (*after.isr, *after.elr):
            assert node in (*before.isr, *before.elr) or decision.unclean_elections
        each_before = {node for node in (*before.isr, *before.elr) if node in after.replicas}
        if len(after.isr) < 2 and not decision.unclean_elections and len(after.replicas) > 1:
            lost = {node for node, each in registered.items() if each.fenced and not each.clean}
            assert each_before - lost <= {*after.isr, *after.elr}
    assert not decide(now, sessions, options)
    for node, each in now.brokers.items():
        assert each.fenced is (node not in live or (registered[node].fenced and each.shutting_down))
        if each.fenced:
            assert node not in now.topics["t"].partitions[0].isr


def test_partitions_of_two_hundred_brokers_take_one_pass() -> None:
    """Also where a broker dies."""
    registered = brokers(*range(200))
    costs = []
    for count in (10, 20):
        topics = {f"t{number}": topic(*(_spread(100 * number + i) for i in range(100))) for number in range(count)}
        whole = image(registered, **topics)
        sessions = dict.fromkeys(range(200), 1)
        assert not decide(whole, sessions, MIN_2)
        del sessions[7]
        costs.append(steps(lambda whole=whole, sessions=sessions: decide(whole, sessions, MIN_2)))  # type: ignore[misc]
        decision = decide(whole, sessions, MIN_2)
        assert len(decision.topics) == count / 2
        assert not decide(applied(whole, decision), sessions, MIN_2)
    assert costs[1] < 2.1 * costs[0]


def _spread(first: int) -> PartitionRegistration:
    replicas = tuple((first + j) % 200 for j in range(3))
    return P(replicas, replicas, replicas[0])


@for_each("min_isr, elr", [(3, (2, 3)), (2, (2, 3)), (1, ())])
def test_rule_6_a_lower_minimum_of_the_cluster_leaves_nobody_eligible(min_isr: int, elr: tuple[int, ...]) -> None:
    """As Kafka: the in-sync set is enough now, and commits without them."""
    partition = P((1, 2, 3), (1,), 1, 4, 9, elr=(2, 3))
    decision, after = decided(partition, brokers(1, 2, 3), options=DecisionOptions(min_isr=min_isr))
    assert (after.isr, after.elr, after.leader, after.leader_epoch) == ((1,), elr, 1, 4)
    assert bool(decision) == (min_isr == 1)
    own, _ = decided(partition, brokers(1, 2, 3), options=DecisionOptions(min_isr=1), min_insync_replicas="2")
    assert not own, "the topic has a minimum of its own"


def test_a_lower_minimum_elects_an_eligible_replica_before_it_forgets_it() -> None:
    partition = P((1, 2, 3), (), NO_LEADER, 4, 9, elr=(2, 3), last_known_leader=1)
    _, after = decided(partition, brokers(2), {2: 1}, DecisionOptions(min_isr=1))
    assert (after.leader, after.isr, after.elr, after.recovering) == (2, (2,), (), False)
