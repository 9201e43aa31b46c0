"""Every public call of the clients is served."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from compat_tests.clients import calls
from compat_tests.clients.adapters.contract import Client
from compat_tests.clients.brokers import EXTERNAL, RunningBroker, serving
from compat_tests.clients.conftest import SESSION_MS, external

pytestmark = pytest.mark.one_client

END_TXN, TXN_OFFSET_COMMIT = 26, 28
KINDS = ("Producer", "Consumer", "Admin", "AdminClient")
AUTHORIZER = {"authorizer.class.name": "standard", "allow.everyone.if.no.acl.found": True}
Name = Callable[[str], str]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "table_name" in metafunc.fixturenames:
        tables = [(client, name) for client in metafunc.config.getoption("clients") for name in calls.TABLES[client]]
        metafunc.parametrize(("client", "table_name"), tables, indirect=["client"])


@pytest.fixture(scope="module")
def broker(
    storage: str, pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningBroker]:
    """A broker with an authorizer, without which there are no ACLs."""
    if storage == EXTERNAL:
        yield external(pytestconfig)
        return
    with serving(storage, tmp_path_factory.mktemp("broker"), SESSION_MS, AUTHORIZER) as running:
        yield running


@pytest.fixture
def module(client: Client) -> Any:
    """Return the module with the tables of the client."""
    if client.name == "kafka-python" and client.version.startswith("2"):
        pytest.skip("the tables are those of kafka-python 3")
    try:
        module = calls.load(client.name)
    except ImportError as error:
        pytest.skip(f"the tables are those of a newer {client.name}: {error}")
    if module.VERSION < module.OLDEST_VERSION:
        pytest.skip(f"the tables are those of {client.name} {module.OLDEST_VERSION} and newer")
    return module


def test_every_call(
    module: Any, table_name: str, broker: RunningBroker, name: Name, serves: Callable[[int], None]
) -> None:
    serves(END_TXN)
    serves(TXN_OFFSET_COMMIT)
    made = getattr(module, table_name)(broker.bootstrap, name)
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


def test_no_call_is_missing(module: Any, table_name: str) -> None:
    """A newer client may have more calls: each is made, or left out with a reason."""
    table = getattr(module, table_name)
    known = set(table.called()) | set(table.LEFT_OUT)
    missing = table.public_methods() - known
    assert not missing, f"calls of {table.CLIENT.__name__} that are neither made nor left out: {sorted(missing)}"
    if module.VERSION == module.TESTED_VERSION:
        gone = known - table.public_methods()
        assert not gone, f"{table.CLIENT.__name__} has no {sorted(gone)}"


def test_no_class_is_missing(module: Any, client: Client) -> None:
    """Each producer, consumer and admin client has a table, or a reason why it has none."""
    public = {
        name
        for namespace in module.NAMESPACES
        for name, _ in inspect.getmembers(namespace, inspect.isclass)
        if name.endswith(KINDS) and not name.startswith("_")
    }
    tables = {getattr(module, name).CLIENT.__name__ for name in calls.TABLES[client.name]}
    assert public == tables | set(module.OTHER_CLASSES)
