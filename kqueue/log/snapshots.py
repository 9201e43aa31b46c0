"""Producer state in a file: `<offset>.snapshot` holds what the log knew of its producers when it ended at that offset.

    version int16 = 1 | CRC-32C uint32 of what follows | count int32 | entries
    entry: producer id int64 | epoch int16 | last sequence int32 | last offset int64 | offset delta int32 | timestamp int64
         | coordinator epoch int32 | first offset of the open transaction int64        (big-endian; -1 = none)

Of the remembered batches only the last is written. Source: Kafka ProducerStateManager, ProducerSnapshot.
"""

from __future__ import annotations

import struct

from crc32c import crc32c

from kqueue.base.errors import CorruptIndex
from kqueue.log.producers import NONE, LastBatch, Producer, Producers

VERSION = 1
HEADER = struct.Struct(">hIi")
ENTRY = struct.Struct(">qhiqiqiq")
_CRC_END = 6


def encode_snapshot(producers: Producers) -> bytes:
    """The file's bytes."""
    body = bytearray(struct.pack(">i", len(producers)))
    for producer_id, producer in producers.items():
        last = producer.batches[-1] if producer.batches else LastBatch(NONE, NONE, 0, NONE)
        body += ENTRY.pack(
            producer_id,
            producer.epoch,
            last.last_sequence,
            last.last_offset,
            last.offset_delta,
            producer.last_timestamp,
            producer.coordinator_epoch,
            producer.transaction_offset,
        )
    return struct.pack(">hI", VERSION, crc32c(body)) + bytes(body)


def decode_snapshot(data: bytes, offset: int) -> Producers:
    """The state that `<offset>.snapshot` holds. Raises CorruptIndex: size, version, checksum."""
    if len(data) < HEADER.size:
        raise CorruptIndex(f"a producer snapshot has {HEADER.size} bytes at least, found {len(data)}")
    version, crc, count = HEADER.unpack_from(data)
    if version != VERSION or count < 0 or len(data) != HEADER.size + count * ENTRY.size:
        raise CorruptIndex(f"no producer snapshot: version {version}, {count} producers in {len(data)} bytes")
    found = crc32c(memoryview(data)[_CRC_END:])
    if found != crc:
        raise CorruptIndex(f"checksum {crc:#010x} stands in the producer snapshot, its bytes give {found:#010x}")
    producers = Producers()
    producers.end_offset = offset
    for entry in ENTRY.iter_unpack(memoryview(data)[HEADER.size :]):
        _add(producers, *entry)
    return producers


def _add(
    producers: Producers,
    producer_id: int,
    epoch: int,
    last_sequence: int,
    last_offset: int,
    offset_delta: int,
    timestamp: int,
    coordinator_epoch: int,
    transaction_offset: int,
) -> None:
    producer = Producer(epoch)
    if last_offset >= 0:
        producer.batches.append(LastBatch(last_sequence, last_offset, offset_delta, timestamp))
    producer.last_timestamp = timestamp
    producer.coordinator_epoch = coordinator_epoch
    producer.transaction_offset = transaction_offset
    producers.add(producer_id, producer)
