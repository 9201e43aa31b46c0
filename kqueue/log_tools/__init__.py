"""Floor 5: Kafka's and kqueue's log folders as files, without a broker: read, dump, verify, export,
repair.

`open_log` is the way in for programs; the commands are `kqueue log ...`.
"""

from __future__ import annotations

from kqueue.log_tools.folder import LogFolder, open_log
from kqueue.log_tools.segments import Batch, InvalidBytes, Segment
from kqueue.records.record import Record

__all__ = ["Batch", "InvalidBytes", "LogFolder", "Record", "Segment", "open_log"]
