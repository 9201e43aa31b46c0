from __future__ import annotations

import pytest

import kqueue
from kqueue.embedded.held_traffic import HeldTraffic
from kqueue.network.interception import InterceptedRequest
from kqueue.tests.testing.raw import Raw, produce


def no_failure(kind: str, path: str, size: int) -> None:
    """No change of files fails."""


def test_held_requests_run_in_order_after_release() -> None:
    traffic = HeldTraffic()
    asked: list[InterceptedRequest] = []

    def hold(request: InterceptedRequest) -> None:
        asked.append(request)
        if request.call.client_id == "held" and len(asked) == 1:
            traffic.hold(request)

    with kqueue.Broker() as broker:
        broker.create_topic("t", retention_ms=-1)
        broker._hooks.add(hold, no_failure)
        with Raw(broker.bootstrap, "held") as held, Raw(broker.bootstrap, "other") as other:
            held.send("Produce", 9, produce(("t", 0)))
            held.send("Metadata", 9)
            broker.requests.wait_for("Produce")
            assert other.ask("Produce", 9, produce(("t", 0))).responses[0].partition_responses[0].error_code == 0
            held.sock.settimeout(0.05)
            with pytest.raises(TimeoutError):
                held.sock.recv(1)
            held.sock.settimeout(60)
            assert len(list(broker.topics["t"].records())) == 1

            async def release() -> None:
                traffic.release()
                traffic.release()

            broker._call(release)
            assert held.receive().responses[0].partition_responses[0].error_code == 0
            assert len(held.receive().brokers) == 1
    assert len(asked) == 4, "what was held is shown to the hooks again"
