from __future__ import annotations

import json
import logging

import pytest

from kqueue.security.audit import NAME_LENGTH_MAX, AuditEvent, AuditLog, Decision, fields_of
from kqueue.security.principals import Principal
from kqueue.testing.manual_clock import ManualClock

ANN, BOB = Principal("User", "ann"), Principal("User", "bob")


def event(
    decision: Decision = Decision.DENIED, principal: Principal = ANN, client: str = "10.0.0.7:1", name: str = "t"
):
    return AuditEvent(decision, principal, client, "SASL_SSL", "Produce", "WRITE", f"TOPIC:{name}")


def written(caplog: pytest.LogCaptureFixture) -> list[dict[str, object]]:
    return [json.loads(record.getMessage()) for record in caplog.records if record.name == "kqueue.audit"]


@pytest.fixture(autouse=True)
def _at_info(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "kqueue.audit")


def test_an_event_is_one_object_on_one_line() -> None:
    assert fields_of(event(), 1_769_860_800_007) == {
        "time": "2026-01-31T12:00:00.007Z",
        "principal": "User:ann",
        "client": "10.0.0.7:1",
        "listener": "SASL_SSL",
        "api": "Produce",
        "operation": "WRITE",
        "resource": "TOPIC:t",
        "decision": "denied",
    }


@pytest.mark.parametrize("name", ["a\nb", 'a", "decision": "allowed', "\u2028", "\x1b[2J", "\ud800", "%s %d"])
def test_names_of_clients_can_not_forge_a_line(name: str) -> None:
    line = json.dumps(fields_of(event(name=name), 0))
    assert line.isascii()
    assert line.isprintable()
    assert json.loads(line)["resource"] == f"TOPIC:{name}"
    assert json.loads(line)["decision"] == "denied"


def test_long_names_are_cut() -> None:
    document = fields_of(event(name="x" * 30_000), 0)
    assert str(document["resource"]).endswith("... (30006 characters)")
    assert len(str(document["resource"])) < NAME_LENGTH_MAX + 40


def test_lines_of_a_client_are_bounded_and_the_next_counts_what_is_missing(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    audit = AuditLog(clock, per_second=1, burst=3)
    for port in range(10):
        audit.write(event(client=f"10.0.0.7:{port}"))  # a new connection does not help
    assert [line.get("left_out") for line in written(caplog)] == [None, None, None]
    clock.advance(1_000)
    audit.write(event())
    assert written(caplog)[-1]["left_out"] == 7
    clock.advance(1_000)
    audit.write(event())
    assert "left_out" not in written(caplog)[-1]


def test_a_flood_hides_neither_other_clients_nor_other_decisions(caplog: pytest.LogCaptureFixture) -> None:
    audit = AuditLog(ManualClock(), per_second=1, burst=3)
    for _ in range(100):
        audit.write(event())
    for one in (event(principal=BOB), event(client="10.0.0.8:1"), event(Decision.ALLOWED), event(Decision.FAILED)):
        count = len(written(caplog))
        audit.write(one)
        assert len(written(caplog)) == count + 1


def test_all_clients_together_are_bounded(caplog: pytest.LogCaptureFixture) -> None:
    audit = AuditLog(ManualClock(), per_second=1, burst=3)
    for number in range(3 * AuditLog.CLIENTS_MAX):
        audit.write(event(client=f"10.0.{number}:1"))
    assert len(written(caplog)) == 30
    assert len(audit._clients) == AuditLog.CLIENTS_MAX
