from __future__ import annotations

import struct

import pytest

from kqueue.base.errors import CorruptBatch
from kqueue.log_tools.decoders.control import control_text
from kqueue.records.record import ABORT, COMMIT, Record, control_key_value
from kqueue.tests.tables import for_each

FOLDER_ID = '"voterDirectoryId":"AAAAAAAAAAEAAAAAAAAAAg"'
ENDPOINT = '{"name":"C","host":"h","port":9093}'
FEATURE = '{"minSupportedVersion":0,"maxSupportedVersion":1}'


def of(kind: int, value: bytes | None) -> Record:
    return Record(7, 0, struct.pack(">hh", 0, kind), value)


def test_the_end_of_a_transaction() -> None:
    assert control_text(Record(7, 0, *control_key_value(COMMIT, 5))) == " endTxnMarker: COMMIT coordinatorEpoch: 5"
    assert control_text(Record(7, 0, *control_key_value(ABORT, -1))) == " endTxnMarker: ABORT coordinatorEpoch: -1"


@for_each(
    "kind, value, shown",
    [  # as Kafka's own converters write them
        (
            2,
            "0000000000030200000003000100",
            'LeaderChange: {"version":0,"leaderId":3,"voters":[{"voterId":3}],"grantingVoters":[]}',
        ),
        (
            2,
            "000100000003020000000300000000000000010000000000000002000100",
            f'LeaderChange: {{"version":1,"leaderId":3,"voters":[{{"voterId":3,{FOLDER_ID}}}],"grantingVoters":[]}}',
        ),
        (3, "0000000000000000000500", 'SnapshotHeader {"version":0,"lastContainedLogTimestamp":5}'),
        (4, "000000", 'SnapshotFooter {"version":0}'),
        (5, "0000000100", 'KRaftVersion {"version":0,"kRaftVersion":1}'),
        (
            6,
            "0000020000000100000000000000010000000000000002020243026823850000000001000000",
            (
                "KRaftVoters "
                f'{{"version":0,"voters":[{{"voterId":1,{FOLDER_ID},"endpoints":[{ENDPOINT}],"kRaftVersionFeature":{FEATURE}}}]}}'
            ),
        ),
        (9, "", "controlType: UNKNOWN(9)"),
    ],
)
def test_control_records_of_the_metadata_log_are_shown(kind: int, value: str, shown: str) -> None:
    assert control_text(of(kind, bytes.fromhex(value))) == f" {shown}"


@for_each(
    "kind, value", [(COMMIT, b"\0\0\0"), (COMMIT, None), (2, b"\0"), (2, b"\0\7"), (5, b"\0\0\0"), (6, b"\0\0\xff")]
)
def test_bytes_that_are_none_such(kind: int, value: bytes | None) -> None:
    with pytest.raises(CorruptBatch, match="offset 7"):
        control_text(of(kind, value))
    with pytest.raises(CorruptBatch, match="a control record's key"):
        control_text(Record(7, 0, b"\0", value))
