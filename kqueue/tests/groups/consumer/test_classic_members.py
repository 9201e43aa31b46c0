from __future__ import annotations

import pytest

from kqueue.base import errors
from kqueue.tests.groups.consumer.test_group_conversion import protocols
from kqueue.tests.groups.support import World


def test_requests_are_checked() -> None:
    world = World()
    world.consume("n")
    joined = world.join(protocols=protocols()).result()
    assert (joined.leader, joined.members, joined.protocol_name) == ("", [], "range")
    for generation, member_id, error in (
        (joined.generation + 1, joined.member_id, errors.IllegalGeneration),
        (joined.generation, "x", errors.UnknownMember),
        (2, "n", errors.UnknownMember),
    ):
        with pytest.raises(error):
            world.groups.heartbeat("g", generation, member_id, None)
        with pytest.raises(error):
            world.groups.sync("g", generation, member_id, None, {}).result()


def test_a_member_waits_for_the_assignment_of_its_epoch() -> None:
    world = World()
    world.consume("n")
    joined = world.join(protocols=protocols()).result()
    with pytest.raises(errors.RebalanceInProgress):
        world.sync(joined).result()
    world.advance(1000)
    again = world.join(member_id=joined.member_id, protocols=protocols()).result()
    assert world.sync(again).result().protocol_name == "range"


def test_members_must_have_a_protocol_in_common() -> None:
    world = World()
    world.consume("n")
    world.join(protocols=protocols()).result()
    with pytest.raises(errors.InconsistentGroupProtocol):
        world.join(protocols={"sticky": protocols()["range"]}).result()
