from __future__ import annotations

from kqueue.schema_registry.rest.contract import SoleLeader


def test_registry_that_has_its_log_for_itself_leads_and_knows_no_other() -> None:
    assert SoleLeader().is_leader()
    assert SoleLeader().leader_url() is None
