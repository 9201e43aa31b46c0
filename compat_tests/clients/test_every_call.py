"""Every public call of the clients is served that needs no second broker, no security and no new
group protocol.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

import pytest

from compat_tests.clients import calls
from compat_tests.clients.adapters.contract import Client
from compat_tests.clients.brokers import RunningBroker

END_TXN, TXN_OFFSET_COMMIT = 26, 28
KINDS = ("Producer", "Consumer", "Admin")
Name = Callable[[str], str]


@pytest.fixture(params=KINDS)
def table(request: pytest.FixtureRequest, client: Client) -> Any:
    """Return the class of calls of one class of the client."""
    if client.name == "kafka-python" and client.version.startswith("2"):
        pytest.skip("the tables are those of kafka-python 3")
    try:
        module = calls.load(client.name)
    except ImportError as error:
        pytest.skip(f"the tables are those of a newer {client.name}: {error}")
    if module.VERSION < module.OLDEST_VERSION:
        pytest.skip(f"the tables are those of {client.name} {module.OLDEST_VERSION} and newer")
    return getattr(module, request.param), module


def test_every_call(table: Any, broker: RunningBroker, name: Name, serves: Callable[[int], None]) -> None:
    kind, _ = table
    serves(END_TXN)
    serves(TXN_OFFSET_COMMIT)
    made = kind(broker.bootstrap, name)
    failures = []
    try:
        for method, call in made.steps():
            try:
                call()
            except Exception as error:
                failures.append(f"{method}: {type(error).__name__}: {error}\n{traceback.format_exc(limit=-2)}")
    finally:
        made.close()
    assert not failures, "\n".join(failures)


def test_no_call_is_missing(table: Any, client: Client) -> None:
    """A client that is newer than the table may have more calls: that is reported as a skip."""
    kind, module = table
    missing = kind.public_methods() - set(kind.called()) - set(kind.LEFT_OUT)
    text = f"calls of {kind.CLIENT.__name__} that are neither made nor left out: {', '.join(sorted(missing))}"
    if missing and module.VERSION > module.TESTED_VERSION:
        pytest.skip(f"{client.name} {client.version} has new {text}")
    assert not missing, text
    if module.VERSION == module.TESTED_VERSION:
        gone = (set(kind.called()) | set(kind.LEFT_OUT)) - kind.public_methods()
        assert not gone, f"{kind.CLIENT.__name__} has no {', '.join(sorted(gone))}"
