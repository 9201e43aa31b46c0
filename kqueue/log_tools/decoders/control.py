"""Text of control records: transaction markers, and the control records of Kafka's metadata log.

    key: int16 version, int16 type | value of a transaction marker: int16 version, int32 coordinator
        epoch

Source: Kafka ControlRecordType, EndTransactionMarker, ControlRecordUtils.
"""

from __future__ import annotations

import struct

from kqueue.base.errors import CorruptBatch, CorruptData, UnsupportedVersion
from kqueue.log_tools.decoders import schemas
from kqueue.log_tools.decoders.struct_json import json_text, struct_to_json
from kqueue.records.record import ABORT, COMMIT, Record, decode_control
from kqueue.schema import reader

_END = struct.Struct(">hi")
_VERSION = struct.Struct(">h")
_ENDS = {ABORT: "ABORT", COMMIT: "COMMIT"}
_OTHERS = {
    2: ("LeaderChange: ", schemas.LeaderChangeMessage),
    3: ("SnapshotHeader ", schemas.SnapshotHeaderRecord),
    4: ("SnapshotFooter ", schemas.SnapshotFooterRecord),
    5: ("KRaftVersion ", schemas.KRaftVersionRecord),
    6: ("KRaftVoters ", schemas.VotersRecord),
}


def control_text(record: Record) -> str:
    """Return what follows the sizes in a control record's line, with a leading blank.

    Raises: CorruptBatch.
    """
    kind, _ = decode_control(record)
    value = record.value or b""
    if kind in _ENDS:
        if len(value) < _END.size:
            raise CorruptBatch(
                f"the end of a transaction has {_END.size} bytes, found {len(value)} at offset {record.offset}"
            )
        return f" endTxnMarker: {_ENDS[kind]} coordinatorEpoch: {_END.unpack_from(value)[1]}"
    if kind not in _OTHERS:
        return f" controlType: UNKNOWN({kind})"
    title, cls = _OTHERS[kind]
    try:
        if len(value) < _VERSION.size:
            raise CorruptBatch(f"a version of {_VERSION.size} bytes is missing")
        version: int = _VERSION.unpack_from(value)[0]
        return f" {title}{json_text(struct_to_json(reader(cls, version)(memoryview(value), 0)[0], version))}"
    except (CorruptData, UnsupportedVersion) as error:
        raise CorruptBatch(f"the control record at offset {record.offset} can't be read: {error}") from error
