"""Acknowledgements wait for the disk, and no longer than the setting says."""

from __future__ import annotations

from kqueue.share.config import WRITE_TIMEOUT
from kqueue.tests.api.harness import SimulatedClient
from kqueue.tests.api.share_client import ACCEPT, Member, acquired, data_of, earliest, fill
from kqueue.wire.error_codes import ErrorCode


def prepared() -> tuple[SimulatedClient, Member]:
    client = SimulatedClient({"kqueue.storage": "local", WRITE_TIMEOUT: 700})
    client.sim.topic("t")
    earliest(client)
    fill(client, 2)
    member = Member(client)
    assert acquired(member.fetch()) == [(0, 1, 1)]
    return client, member


def test_an_acknowledgement_is_answered_when_it_is_on_the_disk() -> None:
    client, member = prepared()
    started = member.start(acks={"t": [(0, 0, ACCEPT)]})
    assert started.response is None
    client.sim.settle()
    assert data_of(started.response).acknowledge_error_code == 0


def test_a_disk_that_does_not_answer() -> None:
    client, member = prepared()
    client.sim.jobs.submit = lambda job: None
    started = member.start(acks={"t": [(0, 0, ACCEPT)]})
    client.sim.advance(699)
    assert started.response is None
    client.sim.advance(1)
    assert data_of(started.response).acknowledge_error_code == ErrorCode.REQUEST_TIMED_OUT
