"""A share group from its records; `test_group` compares it with the group that wrote them."""

from __future__ import annotations

import pytest

from kqueue.base.errors import MalformedMessage
from kqueue.base.sliced_task import run_to_end
from kqueue.groups.log import share_records as records
from kqueue.groups.log.share_records import ShareGroupKey
from kqueue.groups.share.group import ShareGroup
from kqueue.groups.share.restore import restore
from kqueue.tests.groups.support import unlimited


def test_a_record_that_can_not_be_read() -> None:
    group = ShareGroup("g", unlimited())
    with pytest.raises(MalformedMessage):
        run_to_end(restore(group, [(ShareGroupKey(records.GROUP_EPOCH, "g"), b"\0\0?")]))
