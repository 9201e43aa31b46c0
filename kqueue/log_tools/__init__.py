"""Tools for log folders of Kafka and kqueue, without a broker: read, dump, verify, repair, export.

Programs begin with `open_log`; the commands are `kqueue log ...`.
"""

from __future__ import annotations

from kqueue.log_tools.folder import LogFolder, open_log
from kqueue.log_tools.segments import Batch, InvalidBytes, Segment
from kqueue.records.record import Record

__all__ = ["Batch", "InvalidBytes", "LogFolder", "Record", "Segment", "open_log"]
