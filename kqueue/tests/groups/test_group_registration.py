from __future__ import annotations

from kqueue.base.errors import KqueueError
from kqueue.tests.groups.consumer.test_group_conversion import failing, protocols
from kqueue.tests.groups.support import World


def test_an_empty_group_stays_if_the_one_in_its_place_can_not_be_written() -> None:
    world = World()
    world.consume("n")
    world.consume("n", -1)
    failing(world, lambda: world.join(protocols=protocols()))
    for one in (world, world.restarted()):
        assert one.consumer_group().epoch == 3


def test_a_new_group_that_can_not_be_written_is_not_converted() -> None:
    world = World()
    world.log.hold = True
    world.join(protocols=protocols())
    world.beat_consumer("n")
    world.log.fail(KqueueError("EIO"))
    world.log.hold = False
    assert world.groups.groups() == []
    assert world.consume("n").member_epoch == 2


def test_an_empty_group_stays_if_nothing_in_its_place_can_be_written() -> None:
    """A classic group in its place, and what that is converted to meanwhile."""
    world = World()
    world.consume("n")
    world.consume("n", -1)
    world.log.hold = True
    world.join(protocols=protocols())
    world.beat_consumer("n")
    world.log.fail(KqueueError("EIO"))
    world.log.hold = False
    for one in (world, world.restarted()):
        assert one.consumer_group().epoch == 3
