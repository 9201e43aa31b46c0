from __future__ import annotations

import pytest

pytest.importorskip("numba")

import numpy as np

from kqueue.spark.value_formats.avro_kernels import fill, measure
from kqueue.spark.value_formats.avro_plan import CELLS, DATA
from kqueue.tests.spark.value_formats.test_avro import record
from kqueue.tests.spark.value_formats.test_avro_plan import planned


def test_cells_and_data_of_right_values() -> None:
    plan = planned(record(("n", "long"), ("s", "string")))
    values = [b"\x02\x04ab", b"\x04", b"\x06\x02c", b"\x08\x00x"]
    data = np.frombuffer(b"".join(values), np.uint8)
    offsets = np.cumsum([0, *map(len, values)])
    good, state = np.zeros(4, np.bool_), plan.new_state()
    measure(data, offsets, plan.program, state, good, (np.empty(0, np.int64), np.empty(0, np.uint8)))
    assert good.tolist() == [True, False, True, False]
    assert (state[CELLS, :2].tolist(), state[DATA, :2].tolist()) == ([2, 2], [0, 3])
    cells, out, state = np.empty(4, np.int64), np.empty(3, np.uint8), plan.new_state()
    state[CELLS, :2], state[DATA, :2] = [0, 2], [0, 0]
    fill(data, offsets, plan.program, state, good, (cells, out))
    assert (cells.tolist(), out.tobytes()) == ([1, 3, 2, 1], b"abc")
