"""Loads over TLS beside the same over plain text; alone: `python -m benchmarks.tls`."""

from __future__ import annotations

import ssl
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks import frames, loads
from benchmarks.results import Figure, Row, print_rows
from benchmarks.served import OwnBroker, free_port
from kqueue.security.certificates import LOOPBACK_NAMES, Authority, write_private

HANDSHAKES = 300
AES_128 = "ECDHE-ECDSA-AES128-GCM-SHA256"


def rows() -> Iterator[Row]:
    """Yield the rows: produce, fetch and handshakes over TLS, and produce and fetch without."""
    authority = Authority.create()
    with tempfile.TemporaryDirectory() as folder:
        keys = Path(folder, "broker.pem")
        write_private(keys, authority.issue("broker", hosts=LOOPBACK_NAMES).pem)
        port = free_port()
        settings = {
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,TLS:SSL",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(keys),
        }
        with OwnBroker("kafka", more=settings, second=("TLS", port)) as served:
            yield from _bulk(served, ", beside TLS")
            served.load_bootstrap = f"127.0.0.1:{port}"
            served.tls = ssl.create_default_context(cadata=authority.certificate)
            served.tls.maximum_version = ssl.TLSVersion.TLSv1_2
            served.tls.set_ciphers(AES_128)
            yield from _bulk(served, ", TLS 1.2 with AES-128-GCM")
            served.tls = ssl.create_default_context(cadata=authority.certificate)
            yield from _bulk(served, ", TLS 1.3 with AES-256-GCM")
            yield _handshakes(served)


def _bulk(served: OwnBroker, name: str) -> Iterator[Row]:
    topic = frames.create_topic(served.bootstrap, "bulk-tls")
    yield loads.bulk_produce(served, topic, name=name, aims=False)
    yield loads.bulk_fetch(served, topic, name=name, aims=False)
    frames.delete_topic(served.bootstrap, topic)


def _handshakes(served: OwnBroker) -> Row:
    samples = []
    cpu_s = served.cpu_s()
    for _ in range(HANDSHAKES):
        started = time.perf_counter()
        frames.Connection(served.load_bootstrap, served.tls).close()
        samples.append((time.perf_counter() - started) * 1000)
    cpu_ms = (served.cpu_s() - cpu_s) / HANDSHAKES * 1000
    return Row(
        "TLS handshakes, one after another",
        [Figure(statistics.median(samples), "ms"), Figure(cpu_ms, "CPU ms")],
        "TLS 1.3, a key of P-256, no resumption",
    )


if __name__ == "__main__":
    print_rows(rows())
