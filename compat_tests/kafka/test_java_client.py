"""Kafka's own client: every call of its producer, consumer and admin that needs no second broker,
no security and no streams group gives on kqueue what it gives on Kafka.

The programs are in `java`; beside each, what it prints on Kafka 4.3. A method of a client that no
program calls is named in the line `uncalled`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from compat_tests.clients import protocol_client
from compat_tests.kafka.jvm import KAFKA_VERSION
from compat_tests.kafka.tool_host import SOURCES, ToolHost

TELEMETRY = 71
TIMEOUT_S = 80


def expected(name: str) -> list[str]:
    return (SOURCES / f"{name}.expected").read_text().splitlines()


def calls(lines: Iterable[str]) -> dict[str, str]:
    """Return the results by their calls, without the line about what is not called."""
    results = dict(line.split("=", 1) for line in lines)
    return {call: result for call, result in results.items() if call != "uncalled"}


@pytest.mark.parametrize(
    ("program", "arguments", "name"),
    [
        ("AdminCalls", (), "admin"),
        ("ClientCalls", ("producer",), "producer"),
        ("ClientCalls", ("consumer",), "consumer"),
    ],
    ids=["admin", "producer", "consumer"],
)
def test_every_call(
    tools: ToolHost,
    either: str,
    program: str,
    arguments: tuple[str, ...],
    name: str,
    count_calls: Callable[..., None],
    request: pytest.FixtureRequest,
) -> None:
    served = protocol_client.served_apis(either)
    if {26, 44, 45, 55} - set(served):
        pytest.skip("the broker does not serve all APIs")
    done = tools.run(program, *arguments, either, timeout_s=TIMEOUT_S)
    assert done.status == 0, done.stderr
    # Kafka answers for telemetry only with a plugin
    has_telemetry = TELEMETRY in served
    ids = {f"clientInstanceId={'22' if has_telemetry else 'none'}"}
    lines = set(done.stdout.splitlines())
    if request.node.callspec.params["either"] == "kqueue":
        count_calls(f"Apache Kafka's {KAFKA_VERSION}", "Java", calls(lines - ids), calls(expected(name)))
    assert lines == set(expected(name)) | ids, done.stderr
