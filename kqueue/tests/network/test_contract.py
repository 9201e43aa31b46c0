from __future__ import annotations

from kqueue.network.contract import BudgetWaiter, Connection, ManagedConnection
from kqueue.network.session import Session
from kqueue.tests.tables import for_each


@for_each("protocol", [BudgetWaiter, Connection, ManagedConnection])
def test_session_has_every_member_of_its_interfaces(protocol: type) -> None:
    members = {name for part in protocol.__mro__ for name in (*vars(part), *getattr(part, "__annotations__", {}))}
    public = {name for name in members if not name.startswith("_")}
    assert public
    assert public <= set(dir(Session)), public - set(dir(Session))
