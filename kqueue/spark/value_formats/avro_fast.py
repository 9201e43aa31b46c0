"""Decodes Avro values of the reader's own schema by a compiled kernel, and the rest by fastavro."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from kqueue.spark.value_formats.avro_kernels import fill, measure
from kqueue.spark.value_formats.avro_plan import CELLS, DATA, AvroPlan, FilledColumns
from kqueue.spark.value_formats.contract import Decoded, Decoder

_NONE: Any = (np.empty(0, np.int64), np.empty(0, np.uint8))


class FastAvroDecoder:
    """Decodes values.

    Args:
        slow: decodes the values that the kernel leaves out, and says what is wrong with them.
    """

    def __init__(self, plan: AvroPlan, slow: Decoder) -> None:
        self._plan = plan
        self._slow = slow

    def decode(self, values: Sequence[bytes]) -> Decoded:
        """Return the values as columns."""
        if not values:
            return self._slow.decode(values)
        good, found = self._decoded(values)
        if found is None:
            return self._slow.decode(values)
        wrong = np.flatnonzero(~good)
        if not len(wrong):
            return Decoded(found, {})
        rest, errors = self._slow.decode([values[int(row)] for row in wrong])
        places: Any = np.empty(len(values), np.int64)
        places[good] = np.arange(len(found))
        places[wrong] = np.arange(len(found), len(values))
        joined = pa.concat_arrays([found, rest]).take(pa.array(places))
        return Decoded(joined, {int(wrong[index]): reason for index, reason in errors.items()})

    def _decoded(self, values: Sequence[bytes]) -> tuple[Any, pa.StructArray | None]:
        """Return which values are right, and their columns; None: a text is not UTF-8."""
        plan = self._plan
        data = np.frombuffer(b"".join(values), np.uint8)
        offsets: Any = np.zeros(len(values) + 1, np.int64)
        np.cumsum(np.fromiter(map(len, values), np.int64, len(values)), out=offsets[1:])
        good: Any = np.zeros(len(values), np.bool_)
        state = plan.new_state()
        measure(data, offsets, plan.program, state, good, _NONE)
        starts = [np.concatenate([[0], np.cumsum(state[row, : plan.columns])]) for row in (CELLS, DATA)]
        cells, out = np.empty(starts[0][-1], np.int64), np.empty(starts[1][-1], np.uint8)
        state = plan.new_state()
        for row in (CELLS, DATA):
            state[row, : plan.columns] = starts[row][:-1]
        fill(data, offsets, plan.program, state, good, (cells, out))
        try:
            return good, FilledColumns(cells, out, starts).of(plan.root, int(good.sum()))
        except pa.ArrowInvalid:
            return good, None
