from __future__ import annotations

import itertools
import json
import logging
from collections.abc import Callable, Iterator

import pytest

from kqueue import Broker
from kqueue.client import Client, ClientOptions, GroupProtocol, JoinedGroup
from kqueue.client.calls.classic_membership import NO_GENERATION
from kqueue.schema_registry.election.election_member import ElectionMember, ElectionTimes
from kqueue.schema_registry.election.group_messages import RegistryIdentity
from kqueue.schema_registry.schema_log import StoreUnavailable
from kqueue.testing import faults
from kqueue.tests.waits import eventually

TIMES = ElectionTimes(session_ms=10_000, heartbeat_ms=20, rebalance_ms=10_000)
KARAPACE = b'{"version": 2, "host": "z", "port": 8081, "scheme": "http", "master_eligibility": true}'
_numbers = itertools.count()


class FakeWriter:
    """A writer whose claims succeed, or fail with `error`."""

    def __init__(self) -> None:
        self.is_claimed = False
        self.claims = 0
        self.error: StoreUnavailable | None = None

    def claim(self, confirm: Callable[[], None]) -> None:
        confirm()
        self.claims += 1
        if self.error is not None:
            raise self.error
        self.is_claimed = True

    def release(self) -> None:
        self.is_claimed = False


class Instance:
    def __init__(self, member: ElectionMember, writer: FakeWriter) -> None:
        self.member = member
        self.writer = writer

    def wait_until_it_leads(self) -> None:
        eventually(self.member.is_leader, f"{self.member.identity} leads")

    def wait_until_it_follows(self, url: str) -> None:
        eventually(lambda: self.member.leader_url() == url and not self.member.is_leader(), f"it follows {url}")


Start = Callable[..., Instance]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(settings={"group.initial.rebalance.delay.ms": 0, "offsets.topic.num.partitions": 1}) as broker:
        yield broker


@pytest.fixture
def group() -> str:
    return f"registries{next(_numbers)}"


@pytest.fixture
def start(broker: Broker, group: str) -> Iterator[Start]:
    instances = []

    def begin(url: str, *, is_eligible: bool = True, now_s: Callable[[], float] | None = None) -> Instance:
        writer = FakeWriter()
        identity = RegistryIdentity.of_url(url, is_eligible=is_eligible)
        options = ClientOptions(bootstrap=broker.bootstrap, timeout_ms=10_000)
        more = {} if now_s is None else {"now_s": now_s}
        instances.append(Instance(ElectionMember(options, group, identity, writer, times=TIMES, **more), writer))
        instances[-1].member.start()
        return instances[-1]

    yield begin
    for instance in instances:
        instance.member.close()


def test_the_only_member_leads_once_it_has_claimed(start: Start) -> None:
    instance = start("http://a:1")
    instance.wait_until_it_leads()
    assert (instance.member.leader_url(), instance.writer.claims) == ("http://a:1", 1)


def test_of_two_members_the_one_with_the_first_url_leads(start: Start) -> None:
    second = start("http://b:1")
    second.wait_until_it_leads()
    first = start("http://a:1")
    first.wait_until_it_leads()
    second.wait_until_it_follows("http://a:1")
    assert not second.writer.is_claimed


def test_a_leader_that_leaves_hands_over_at_once(start: Start) -> None:
    first, second = start("http://a:1"), start("http://b:1")
    first.wait_until_it_leads()
    second.wait_until_it_follows("http://a:1")
    first.member.close()
    assert not first.member.is_leader()
    second.wait_until_it_leads()


def test_a_member_that_may_not_write_never_leads(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "kqueue.schema_registry"):
        instance = start("http://a:1", is_eligible=False)
        eventually(lambda: "writes: no member may write" in caplog.text, "the line")
    assert (instance.member.is_leader(), instance.member.leader_url(), instance.writer.claims) == (False, None, 0)
    other = start("http://b:1")
    other.wait_until_it_leads()
    instance.wait_until_it_follows("http://b:1")


def test_two_members_with_one_url_do_not_write(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    first = start("http://a:1")
    first.wait_until_it_leads()
    second = start("http://a:1")
    eventually(lambda: "have the same URL" in caplog.text, "the line")
    eventually(lambda: first.member.leader_url() is None, "its end")
    assert [first.member.is_leader(), second.member.is_leader()] == [False, False]


def test_a_claim_that_fails_is_made_again(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    instance = start("http://a:1")
    instance.wait_until_it_leads()
    instance.writer.error = StoreUnavailable("no replica is in sync")
    instance.writer.release()  # as an append does whose outcome is unknown
    instance.member.wake()
    eventually(lambda: "elected, but no replica is in sync" in caplog.text, "the line")
    assert not instance.member.is_leader()
    instance.writer.error = None
    instance.wait_until_it_leads()


def test_a_leader_without_heartbeats_stops_to_lead_before_its_session_ends(broker: Broker, start: Start) -> None:
    clock = [0.0]
    instance = start("http://a:1", now_s=lambda: clock[0])
    instance.wait_until_it_leads()
    with faults(broker) as faulty:
        faulty.partition_network()
        clock[0] += TIMES.session_ms / 1000
        assert (instance.member.is_leader(), instance.member.leader_url()) == (False, None)
    instance.wait_until_it_leads()


def test_a_member_that_was_removed_joins_again(broker: Broker, group: str, start: Start) -> None:
    instance = start("http://a:1")
    instance.wait_until_it_leads()
    with Client(broker.bootstrap) as client:
        client.membership.leave(group, instance.member._member_id)
    eventually(lambda: instance.writer.claims == 2, "its return")
    instance.wait_until_it_leads()


@pytest.mark.parametrize("error", ["ILLEGAL_GENERATION", "NOT_COORDINATOR"])
def test_a_member_of_an_old_generation_joins_again(broker: Broker, start: Start, error: str) -> None:
    instance = start("http://a:1")
    instance.wait_until_it_leads()
    with faults(broker) as faulty:
        fault = faulty.fail("Heartbeat", error)
        eventually(lambda: fault.count, "the error")
    instance.wait_until_it_leads()


def test_a_refused_join_is_one_line_and_tried_again(
    broker: Broker, start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    with faults(broker) as faulty:
        fault = faulty.fail("JoinGroup", "GROUP_AUTHORIZATION_FAILED", times=2)
        instance = start("http://a:1")
        eventually(lambda: fault.count == 2, "two errors")
    instance.wait_until_it_leads()
    assert caplog.text.count("GROUP_AUTHORIZATION_FAILED") == 1


def test_a_group_is_shared_with_karapace(broker: Broker, group: str, start: Start) -> None:
    protocol = GroupProtocol(group, "sr", "v0", KARAPACE, 10_000, 10_000)
    with Client(broker.bootstrap) as client:
        karapace = joined(client, protocol, client.membership.join(protocol).member_id)
        assignment = b'{"master": "%s", "master_identity": %s, "error": 0}' % (karapace.member_id.encode(), KARAPACE)
        client.membership.sync(protocol, karapace, {karapace.member_id: assignment})
        instance = start("http://b:1")
        eventually(lambda: is_rebalancing(client, protocol, karapace), "its join")
        karapace = joined(client, protocol, karapace.member_id)
        assert karapace.is_leader, "the leader of the group stays, and assigns"
        urls = {json.loads(metadata)["host"] for metadata in karapace.members.values()}
        assert urls == {"z", "b"}
        client.membership.sync(protocol, karapace, dict.fromkeys(karapace.members, assignment))
        instance.wait_until_it_follows("http://z:8081")
        client.membership.leave(group, karapace.member_id)
        instance.wait_until_it_leads()


def joined(client: Client, protocol: GroupProtocol, member_id: str) -> JoinedGroup:
    result = client.membership.join(protocol, member_id)
    assert result.generation != NO_GENERATION
    return result


def is_rebalancing(client: Client, protocol: GroupProtocol, member: JoinedGroup) -> bool:
    try:
        client.membership.heartbeat(protocol.group, member.member_id, member.generation)
    except Exception as error:
        return "REBALANCE_IN_PROGRESS" in str(error)
    return False
