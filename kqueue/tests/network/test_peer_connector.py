"""The opening of connections to other brokers; see also `test_peer_channel`."""

from __future__ import annotations

import asyncio
from pathlib import Path

from kqueue.tests.network.peer_harness import PeerHarness, ScriptedBroker, fetch, peered
from kqueue.tests.network.peer_tls_harness import (
    security,
)


def test_a_broker_that_never_answers_the_handshake_is_given_up(tmp_path: Path) -> None:
    async def silent(broker: ScriptedBroker, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(65536)
        harness_[0].pass_ms(10_001)
        await asyncio.sleep(30)

    harness_: list[PeerHarness] = []

    async def test(harness: PeerHarness) -> None:
        harness_.append(harness)
        harness.peers.security = security(tmp_path)
        await harness.broker(silent)
        assert "no connection within 10 s (TLS handshake)" in str(await harness.send(fetch()).error())

    peered(test)
