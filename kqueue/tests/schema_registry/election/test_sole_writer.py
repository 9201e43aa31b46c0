from __future__ import annotations

from collections.abc import Callable

import pytest

from kqueue.schema_registry.election import sole_writer
from kqueue.schema_registry.election.sole_writer import SoleWriter
from kqueue.schema_registry.schema_log import StoreUnavailable
from kqueue.tests.waits import eventually


class FailingWriter:
    """A writer whose first claims fail."""

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.claims = 0
        self.is_claimed = False

    def claim(self, confirm: Callable[[], None]) -> None:
        self.claims += 1
        if self.claims <= self.failures:
            raise StoreUnavailable("no broker")
        self.is_claimed = True

    def release(self) -> None:
        self.is_claimed = False


def test_it_leads_from_the_start_and_names_no_other() -> None:
    writer = SoleWriter(FailingWriter(0))
    writer.start()
    assert (writer.is_leader(), writer.leader_url()) == (True, None)
    writer.close()
    assert not writer.is_leader()


def test_a_start_without_a_broker_is_an_error() -> None:
    with pytest.raises(StoreUnavailable, match="no broker"):
        SoleWriter(FailingWriter(1)).start()


def test_a_lost_claim_is_made_again_until_it_succeeds(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sole_writer, "BACKOFF_FIRST_S", 0.001)
    inner = FailingWriter(3)
    writer = SoleWriter(inner)
    for _ in range(5):
        writer.wake()
    eventually(writer.is_leader, "the claim")
    assert caplog.text.count("elected, but no broker") == 1
    writer.close()


def test_a_claim_that_is_tried_again_ends_with_the_close() -> None:
    inner = FailingWriter(1_000)
    writer = SoleWriter(inner)
    writer.wake()
    eventually(lambda: inner.claims, "the first")
    writer.close()
    assert not writer.is_leader()
