from __future__ import annotations

import pytest

from kqueue.api.altered_configs import LATE, WAIT_MS, resource_type
from kqueue.base.config_resources import ResourceType
from kqueue.base.errors import InvalidRequest
from kqueue.tests.api.handlers.test_incremental_alter_configs import SET, resource
from kqueue.tests.api.harness import SimulatedClient
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest

TOPIC = ResourceType.TOPIC.value


def test_a_change_that_the_disk_does_not_take_in_time_is_reported() -> None:
    client = SimulatedClient()
    client.sim.topic("a")
    request = IncrementalAlterConfigsRequest(resources=[resource(TOPIC, "a", (SET, "retention.ms", "1"))])
    started = client.start(request, 1)
    client.sim.clock.advance(WAIT_MS)
    client.sim.broker.scheduler.timers.run_due(client.sim.clock.monotonic_ms())  # jobs are not run: the disk hangs
    client.sim.broker.scheduler.purgatory.run_ready()
    (result,) = started.response.responses
    assert (result.error_code, result.error_message) == (ErrorCode.REQUEST_TIMED_OUT, LATE)
    client.sim.settle()
    assert client.sim.broker.topics.get("a").config["retention.ms"] == 1


def test_types_of_resources() -> None:
    assert resource_type(32) is ResourceType.GROUP
    with pytest.raises(InvalidRequest, match="Unknown resource type -1"):
        resource_type(-1)
