"""Changes the codec of a batch of magic 2 without decoding its records.

    batch: header (61 bytes) | records, compressed as one block by the codec in the attributes

The decompressed records stay the same bytes; codec, length and checksum change. So all of the work
is done by the codecs' libraries and the checksum, which release the interpreter's lock: in a worker
thread it does not delay the owner thread. Kafka decodes and encodes each record here.
"""

from __future__ import annotations

from crc32c import crc32c

from kqueue.records.batch import decompressed
from kqueue.records.batch_header import BATCH_OVERHEAD, CODEC_MASK, CRC_START, HEADER, LENGTH_FIELD_END, BatchHeader
from kqueue.records.codecs.contract import Buffer, Codec


def recompress(
    batch: Buffer, header: BatchHeader, codec: Codec, level: int | None, limit_bytes: int, records: Buffer | None = None
) -> bytearray:
    """Return the batch with its records compressed by `codec`; `batch` itself is not changed.

    Args:
        batch: exactly one batch.
        level: None: the codec's default.
        limit_bytes: most bytes that the records may decompress to.
        records: the decompressed records, if they are known.
    Raises: DecompressedTooLarge: above `limit_bytes`. CorruptBatch: the records can't be
        decompressed. UnsupportedCodec.
    Thread: any.
    """
    if records is None:
        records = decompressed(batch, 0, header, limit_bytes)
    payload = codec.compress(records, level) if codec.id else records
    attributes = header.attributes & ~CODEC_MASK | codec.id
    length = BATCH_OVERHEAD - LENGTH_FIELD_END + len(payload)
    fields = header._replace(batch_length=length, attributes=attributes, crc=0)
    out = bytearray(BATCH_OVERHEAD)
    HEADER.pack_into(out, 0, *fields)
    out += payload
    with memoryview(out)[CRC_START:] as covered:
        crc = crc32c(covered)
    HEADER.pack_into(out, 0, *fields._replace(crc=crc))
    return out
