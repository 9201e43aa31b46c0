"""Where share groups are."""

from __future__ import annotations

import pytest

from kqueue.tests.api.share_client import group_offsets, share_group_at_2
from kqueue.wire.error_codes import ErrorCode


@pytest.mark.parametrize("named", [True, False])
def test_start_and_lag(named: bool) -> None:
    client = share_group_at_2()
    assert group_offsets(client, named=named) == (0, 2, 2)
    assert group_offsets(client, named=named, group="nobody")[0] == ErrorCode.GROUP_ID_NOT_FOUND
