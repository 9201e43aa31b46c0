"""What security costs: TLS, SCRAM, the authorizer, quotas and the audit log; alone: `python -m
benchmarks.security`.
"""

from __future__ import annotations

import logging
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks import acls, frames, loads, tls
from benchmarks.results import Figure, Row, print_rows
from benchmarks.served import OwnBroker, free_port
from kqueue.base.clock import SystemClock
from kqueue.client.calls.quotas import QuotaAlteration
from kqueue.embedded.users import user_settings
from kqueue.security.audit import AuditEvent, AuditLog, Decision
from kqueue.security.principals import Principal
from kqueue.security.sasl.login import SaslLogin
from kqueue.wire.messages import sasl_authenticate, sasl_handshake

HANDSHAKES = 300
REQUESTS = 40_000
LINES, FLOOD, ADDRESSES = 20_000, 200_000, 1_000
LINES_MAX = 1_000
"""That all clients together may write at once, and nearly so in a flood of less than a second."""


def rows() -> Iterator[Row]:
    """Yield all rows."""
    yield from tls.rows()
    yield scram_row()
    yield from acls.rows()
    yield from quota_rows()
    yield line_row()
    yield from flood_rows()


def scram_row() -> Row:
    """Measure connections that authenticate by SCRAM, one after another."""
    port = free_port()
    users = user_settings({"ann": "secret"}, ["SASL"])
    more = {name: ",".join(value) if isinstance(value, list) else str(value) for name, value in users.items()}
    more["listener.security.protocol.map"] = "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT"
    samples = []
    with OwnBroker("kafka", more=more, second=("SASL", port)) as served:
        _authenticate(port).close()
        cpu_s = served.cpu_s()
        for _ in range(HANDSHAKES):
            began = time.perf_counter()
            _authenticate(port).close()
            samples.append((time.perf_counter() - began) * 1000)
        cpu_ms = (served.cpu_s() - cpu_s) / HANDSHAKES * 1000
    return Row(
        "SCRAM-SHA-256, one connection after another",
        [
            Figure(statistics.median(samples), "ms"),
            Figure(cpu_ms, "CPU ms of the broker"),
            Figure(1000 / statistics.median(samples), "handshakes/s"),
        ],
        "4096 iterations, which the client counts; a new connection each",
    )


def _authenticate(port: int) -> frames.Connection:
    connection = frames.Connection(f"127.0.0.1:{port}")
    offer = sasl_handshake.SaslHandshakeRequest(mechanism="SCRAM-SHA-256")
    connection.call(17, 1, offer, sasl_handshake.SaslHandshakeResponse)
    client = SaslLogin("SCRAM-SHA-256", "ann", "secret").begin()
    token: bytes | None = client.first()
    while token is not None:
        request = sasl_authenticate.SaslAuthenticateRequest(auth_bytes=token)
        answer = connection.call(36, 1, request, sasl_authenticate.SaslAuthenticateResponse)
        if answer.error_code:
            raise RuntimeError(f"the broker refused the password: {answer.error_message}")
        token = client.respond(bytes(answer.auth_bytes))
    return connection


def quota_rows() -> Iterator[Row]:
    """Yield what requests cost without quotas, and with some that nobody reaches."""
    with OwnBroker("kafka") as served:
        yield loads.one_record_requests(served, 5, REQUESTS, None, ", no quota")
        change = {"producer_byte_rate": 1e12, "consumer_byte_rate": 1e12, "request_percentage": 1e6}
        with frames.asking(served.bootstrap) as client:
            for outcome in client.cluster.alter_quotas([QuotaAlteration({"client-id": None}, change)]):
                if outcome.code:
                    raise RuntimeError(f"the broker refused the quota: {outcome}")
        yield loads.one_record_requests(served, 5, REQUESTS, None, ", with quotas")


def line_row() -> Row:
    """Measure one line of the audit log, with its file."""
    event = _denied(0)
    with _AuditFile() as file:
        audit = AuditLog(SystemClock(), per_second=1e9, burst=1e9)
        began_ns = time.process_time_ns()
        for _ in range(LINES):
            audit.write(event)
        took_us = (time.process_time_ns() - began_ns) / LINES / 1000
        written = file.lines()
    if written != LINES:
        raise RuntimeError(f"{LINES} events were written as {written} lines")
    return Row("one line of the audit log", [Figure(took_us, "CPU µs")], "a denied request, written to a file")


def flood_rows() -> Iterator[Row]:
    """Yield what denied requests cost beyond the rate limit, and how many lines they write."""
    for name, addresses in (("one address", 1), (f"{ADDRESSES:,} addresses", ADDRESSES)):
        events = [_denied(number) for number in range(addresses)]
        with _AuditFile() as file:
            audit = AuditLog(SystemClock())
            began_ns, began = time.process_time_ns(), time.perf_counter()
            for number in range(FLOOD):
                audit.write(events[number % addresses])
            took_us = (time.process_time_ns() - began_ns) / FLOOD / 1000
            seconds = time.perf_counter() - began
            lines = file.lines()
        yield Row(
            f"{FLOOD:,} denied requests in {seconds:.1f} s, {name}",
            [Figure(took_us, "CPU µs each"), Figure(lines, "lines", at_most=LINES_MAX + 100 * seconds + 1)],
            "the audit log writes 10 lines/s of a client, 100 of all, and ten times that at once",
        )


def _denied(number: int) -> AuditEvent:
    address = f"10.0.{number // 250}.{number % 250}:40404"
    return AuditEvent(Decision.DENIED, Principal("User", "eve"), address, "SASL", "Produce", "WRITE", "TOPIC:orders")


class _AuditFile:
    """The audit log's logger writes to a file of its own while this is entered."""

    def __enter__(self) -> _AuditFile:
        descriptor, name = tempfile.mkstemp(prefix="kqueue-benchmark-")
        os.close(descriptor)
        self._path = Path(name)
        self._logger = logging.getLogger("kqueue.audit")
        self._handler = logging.FileHandler(name)
        self._before = self._logger.level, self._logger.propagate
        self._logger.addHandler(self._handler)
        self._logger.setLevel(logging.INFO)
        self._logger.propagate = False
        return self

    def lines(self) -> int:
        """Return how many lines were written."""
        self._handler.flush()
        return self._path.read_bytes().count(b"\n")

    def __exit__(self, *error: object) -> None:
        self._logger.removeHandler(self._handler)
        self._logger.level, self._logger.propagate = self._before
        self._handler.close()
        self._path.unlink()


if __name__ == "__main__":
    print_rows(rows())
