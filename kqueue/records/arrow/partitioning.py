"""Partitions of whole columns, without a call per record for kqueue's own partitioners. Needs
NumPy.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from kqueue.base.errors import CorruptBatch
from kqueue.records.arrow.encoder import binary
from kqueue.records.arrow.engine import EngineName, load_compiled_engine
from kqueue.records.partitioners.contract import Partitioner
from kqueue.records.partitioners.crc32 import Crc32ConsistentPartitioner, Crc32Partitioner
from kqueue.records.partitioners.murmur2 import Murmur2Partitioner, murmur2
from kqueue.records.partitioners.random import RandomPartitioner
from kqueue.records.partitioners.round_robin import RoundRobinPartitioner
from kqueue.records.partitioners.sticky import UNKNOWN_VALUE_BYTES, StickyPartitioner

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

_KEY_INDEPENDENT = (RandomPartitioner, RoundRobinPartitioner)
_SIGN = 0x7FFFFFFF  # Java clears the sign bit


def partitions_of(
    partitioner: Partitioner,
    count: int,
    *,
    keys: pa.Array,
    values: pa.Array,
    available: Sequence[int] | None = None,
    topic: str = "",
    engine: EngineName = "auto",
) -> NDArray[np.int64]:
    """Return the partition of each record, equal to calls of `partitioner.partition` in order.

    The partitioner's state changes as with those calls.

    Args:
        partitioner: plugins' partitioners are called once per record.
        count, available, topic: as for `Partitioner.partition`.
        keys, values: of equal length; bytes or text, null: none; less than 2 GiB.
        engine: of the hashes, as for `engine.chunk_builder`.
    Raises:
        ValueError: a column has another type.
        PluginError: a plugin's partitioner failed.
    """
    keys, values = binary(keys, "key"), binary(values, "value")
    assign: Callable[..., Any] = _VECTORIZED.get(type(partitioner), _one_by_one)
    partitions: NDArray[np.int64] = assign(partitioner, count, keys, values, available or None, topic, engine)
    return partitions


def _one_by_one(
    partitioner: Any,
    count: int,
    keys: pa.Array,
    values: pa.Array,
    available: Sequence[int] | None,
    topic: str,
    engine: EngineName,
) -> NDArray[np.int64]:
    import numpy as np

    partition = partitioner.partition
    if isinstance(partitioner, _KEY_INDEPENDENT):
        chosen = [partition(None, count, available=available, topic=topic) for _ in range(len(keys))]
    else:
        pairs = zip(keys.to_pylist(), values.to_pylist(), strict=True)
        chosen = [partition(key, count, available=available, value=value, topic=topic) for key, value in pairs]
    return np.array(chosen, np.int64)


def _by_murmur2(
    partitioner: Any,
    count: int,
    keys: pa.Array,
    values: pa.Array,
    available: Sequence[int] | None,
    topic: str,
    engine: EngineName,
) -> NDArray[np.int64]:
    import pyarrow.compute as pc

    if keys.null_count == len(keys):
        return _sticking(partitioner.keyless, count, keys, values, available, topic, engine)
    chosen = (murmur2_of(keys, engine) & _SIGN) % count
    if keys.null_count:
        keyless = pc.is_null(keys)
        without = keys.filter(keyless), values.filter(keyless)
        chosen[keyless.to_numpy(zero_copy_only=False)] = _sticking(
            partitioner.keyless, count, *without, available, topic, engine
        )
    return chosen


def _by_crc32(
    partitioner: Any,
    count: int,
    keys: pa.Array,
    values: pa.Array,
    available: Sequence[int] | None,
    topic: str,
    engine: EngineName,
) -> NDArray[np.int64]:
    import pyarrow.compute as pc

    chosen = crc32_of(keys, engine) % count
    if isinstance(partitioner, Crc32Partitioner):
        sizes = pc.fill_null(pc.binary_length(keys), 0).to_numpy(zero_copy_only=False)
        for row in (sizes == 0).nonzero()[0].tolist():
            chosen[row] = partitioner.partition(None, count, available=available, topic=topic)
    return chosen


def _sticking(
    partitioner: Any,
    count: int,
    keys: pa.Array,
    values: pa.Array,
    available: Sequence[int] | None,
    topic: str,
    engine: EngineName,
) -> NDArray[np.int64]:
    import numpy as np
    import pyarrow.compute as pc

    key_bytes, value_bytes = (
        pc.fill_null(pc.binary_length(column), of_null).to_numpy(zero_copy_only=False).astype(np.int64)
        for column, of_null in ((keys, 0), (values, UNKNOWN_VALUE_BYTES))
    )
    runs = list(partitioner.runs(np.cumsum(key_bytes + value_bytes), count, available=available, topic=topic))
    return np.repeat(np.array([partition for partition, _ in runs], np.int64), [rows for _, rows in runs])


_VECTORIZED: dict[type[Any], Callable[..., Any]] = {
    Murmur2Partitioner: _by_murmur2,
    Crc32Partitioner: _by_crc32,
    Crc32ConsistentPartitioner: _by_crc32,
    StickyPartitioner: _sticking,
}
"""By exact class, because a derived class may choose otherwise."""


# --- hashes


def murmur2_of(column: pa.Array, engine: EngineName = "auto") -> NDArray[np.int64]:
    """Return the murmur2 hash of each value, 0..2**32-1; a null has that of an empty value. See
    `partitions_of`.
    """
    return _hashes(column, engine, "murmur2_all", murmur2)


def crc32_of(column: pa.Array, engine: EngineName = "auto") -> NDArray[np.int64]:
    """Return the CRC-32 of each value, 0..2**32-1; a null has that of an empty value."""
    return _hashes(column, engine, "crc32_all", zlib.crc32)


def _hashes(column: pa.Array, engine: EngineName, kernel: str, plain: Callable[[bytes], int]) -> NDArray[np.int64]:
    import numpy as np
    import pyarrow.compute as pc

    column = binary(column, "key")
    if column.null_count:
        column = pc.fill_null(column, b"")
    fast = load_compiled_engine(engine, column.nbytes)
    if fast is None:
        different = column.dictionary_encode()  # usually few keys repeat
        of_each: NDArray[np.int64] = np.array([plain(value) for value in different.dictionary.to_pylist()], np.int64)
        return of_each[different.indices.to_numpy()]
    hashes: NDArray[np.uint32] = np.empty(len(column), np.uint32)
    if not fast.hash_all(kernel, column, hashes):
        raise CorruptBatch("a column's positions leave its data")
    return hashes.astype(np.int64)
