"""Values of a DataFrame's record batches, decoded in its tasks: a function for `mapInArrow`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from kqueue.spark.value_formats.decoder import ValueDecoder, ValueSchema

VALUE, ERROR = "_value", "_error"


@dataclass(frozen=True, slots=True)
class DecodeFrame:
    """Adds the columns `_value` (a struct) and `_error` (text; null: none) to record batches that
    have `value`; it can be pickled.
    """

    schema: ValueSchema

    @property
    def columns(self) -> pa.Schema:
        """The columns that are added. Raises: SchemaRefused, ExtraNeeded."""
        return pa.schema([pa.field(VALUE, self.schema.reader().type), pa.field(ERROR, pa.string())])

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the batches with both. Raises: RegistryFailed."""
        decoder = ValueDecoder(self.schema)
        for batch in batches:
            values, errors = decoder.decode(batch.column("value"))
            reasons = pa.array([errors.get(row) for row in range(batch.num_rows)], pa.string())
            yield pa.RecordBatch.from_arrays(
                [*batch.columns, values, reasons], names=[*batch.schema.names, VALUE, ERROR]
            )
