from __future__ import annotations

from typing import Any

import pytest

from kqueue.spark.value_formats.avro import AvroFormat
from kqueue.spark.value_formats.avro_plan import ARRAY, END, ITEM_END, LONG, NULLABLE, AvroPlan, NoPlan, plan_of
from kqueue.tests.spark.value_formats.test_avro import ALL, record, text


def planned(schema: dict[str, Any]) -> AvroPlan:
    format = AvroFormat(text(schema))
    return plan_of(*format.side, format.type)


def test_instructions() -> None:
    plan = planned(record(("a", ["null", "long"]), ("b", {"type": "array", "items": record(("n", "int"), name="I")})))
    assert plan.program[:, 0].tolist() == [NULLABLE, LONG, ARRAY, LONG, ITEM_END, END]
    assert plan.program[:, 1].tolist() == [0, 1, 2, 3, 2, 0]
    assert plan.program[[0, 2, 4], 3].tolist() == [2, 5, 5]
    assert plan.columns == 4


@pytest.mark.parametrize(
    "schema",
    [
        ALL,
        record(("a", ["int", "string"])),
        record(("a", ["null", "int", "string"])),
        record(("a", {"type": "bytes", "logicalType": "decimal", "precision": 19})),
        record(("a", {"type": "fixed", "name": "F", "size": 4, "logicalType": "decimal", "precision": 5})),
    ],
)
def test_what_the_kernel_does_not_know(schema: dict[str, Any]) -> None:
    with pytest.raises(NoPlan):
        planned(schema)
