"""Kafka's own share consumer (KIP-932) sees on kqueue what it sees on Kafka: acceptance, release,
rejection, renewal, locks that end, members that leave, the delivery limit, the tools' answers.

The program is `java/ShareCalls.java`; `java/share.expected` is what it prints on Kafka 4.3.
"""

from __future__ import annotations

from compat_tests.kafka.tool_host import SOURCES, ToolHost

TIMEOUT_S = 170


def test_every_call_of_a_share_consumer(tools: ToolHost, either: str) -> None:
    done = tools.run("ShareCalls", either, timeout_s=TIMEOUT_S)
    assert done.status == 0, done.stderr
    assert done.stdout.splitlines() == (SOURCES / "share.expected").read_text().splitlines()
