"""A plan by which a kernel decodes Avro values, and columns of what it makes.

A plan has an instruction for each part of the schema that takes bytes. Each writes a cell (64 bits)
to its column, and text and bytes to the column's data: a number, the bits of a float, a length, the
number of a symbol, the items of an array, or whether there is a value. Null values have no cells
below them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from kqueue.spark.value_formats.contract import DEPTH_MAX

END, LONG, REAL, BOOLEAN, BYTES, FIXED, ENUM, DECIMAL, NULLABLE, ARRAY, ITEM_END = range(11)
CELLS, DATA, SAVED = 0, 1, 2
"""Rows of a kernel's state, with a number for each column; `SAVED` is two."""
STACK = 4
"""The first row of its stack, in three columns."""
STATE_ROWS = STACK + DEPTH_MAX + 1
INT_MAX, LONG_MAX = 2**31 - 1, 2**63 - 1
DIGITS_MAX = 18
"""Of decimals that a cell holds."""
PRIMITIVES = {
    "int": (LONG, INT_MAX), "long": (LONG, LONG_MAX), "float": (REAL, 4), "double": (REAL, 8), "boolean": (BOOLEAN, 0),
    "bytes": (BYTES, 0), "string": (BYTES, 0),
}  # fmt: skip


class NoPlan(Exception):
    """The schema has parts that the kernel does not know."""


class Node(NamedTuple):
    """A part of a schema.

    `column`: -1: a record, which takes no bytes itself. `factor`: of times in milliseconds 1,000.
    """

    op: int
    column: int
    type: Any
    parts: tuple[Node, ...] = ()
    symbols: tuple[str, ...] = ()
    factor: int = 1


@dataclass(frozen=True)
class AvroPlan:
    """`program`: rows of (instruction, column, argument, where to go on). `columns`: how many."""

    root: Node
    program: Any
    columns: int

    def new_state(self) -> Any:
        """Return a kernel's state, of zeros."""
        return np.zeros((STATE_ROWS, max(self.columns, 3)), np.int64)


def plan_of(schema: Any, names: Mapping[str, Any], type: pa.StructType) -> AvroPlan:
    """Return the plan of a record.

    Args:
        schema: as fastavro parses it; `names`: its named types.
        type: of its column.
    Raises: NoPlan.
    """
    planner = _Planner(names)
    root = planner.add(schema, type)
    planner.program.append([END, 0, 0, 0])
    return AvroPlan(root, np.array(planner.program, np.int64), planner.columns)


class _Planner:
    def __init__(self, names: Mapping[str, Any]) -> None:
        self._names = names
        self.program: list[list[int]] = []
        self.columns = 0

    def add(self, schema: Any, type: Any) -> Node:
        """Add the instructions of a schema; return its node."""
        if isinstance(schema, str) and schema in self._names:
            schema = self._names[schema]
        if isinstance(schema, list):
            return self._union(schema, type)
        if isinstance(schema, str):
            return self._primitive(schema, type)
        kind = schema["type"]
        if kind == "record":
            pairs = zip(schema["fields"], type, strict=True)
            return Node(END, -1, type, tuple(self.add(field["type"], one.type) for field, one in pairs))
        if kind in ("array", "map"):
            return self._items(schema, type)
        if kind == "enum":
            return Node(ENUM, self._emit(ENUM, len(schema["symbols"])), type, (), tuple(schema["symbols"]))
        if pa.types.is_decimal(type):
            if type.precision > DIGITS_MAX or kind != "bytes":
                raise NoPlan
            return Node(DECIMAL, self._emit(DECIMAL, 10**type.precision), type)
        if kind == "fixed":
            return Node(FIXED, self._emit(FIXED, schema["size"]), type)
        if pa.types.is_timestamp(type) and str(schema.get("logicalType", "")).endswith("-millis"):
            return Node(LONG, self._emit(LONG, LONG_MAX // 1_000), type, factor=1_000)
        return self.add(kind, type)

    def _primitive(self, schema: str, type: Any) -> Node:
        if schema not in PRIMITIVES:
            raise NoPlan
        op, argument = PRIMITIVES[schema]
        return Node(op, self._emit(op, argument), type)

    def _union(self, schema: list[Any], type: Any) -> Node:
        if len(schema) != 2 or "null" not in schema:
            raise NoPlan
        null = schema.index("null")
        at = len(self.program)
        column = self._emit(NULLABLE, null)
        part = self.add(schema[1 - null], type)
        self.program[at][3] = len(self.program)
        return Node(NULLABLE, column, type, (part,))

    def _items(self, schema: Any, type: Any) -> Node:
        at = len(self.program)
        column = self._emit(ARRAY, 0)
        if schema["type"] == "map":
            parts = [self._primitive("string", type.key_type), self.add(schema["values"], type.item_type)]
        else:
            parts = [self.add(schema["items"], type.value_type)]
        self.program.append([ITEM_END, column, 0, len(self.program) + 1])
        self.program[at][3] = len(self.program)
        return Node(ARRAY, column, type, tuple(parts))

    def _emit(self, op: int, argument: int) -> int:
        self.program.append([op, self.columns, argument, 0])
        self.columns += 1
        return self.columns - 1


class FilledColumns:
    """Arrow columns of what a kernel filled in.

    Args:
        starts: where the cells of each column begin, and where its data, with both ends.
    """

    def __init__(self, cells: Any, data: Any, starts: Sequence[Any]) -> None:
        self._cells = cells
        self._data = data
        self._starts = starts

    def of(self, node: Node, count: int) -> pa.Array:
        """Return the column of a node, which has `count` values.

        Raises: pa.ArrowInvalid: text is not UTF-8.
        """
        if node.column < 0:
            parts = [self.of(part, count) for part in node.parts]
            return pa.StructArray.from_arrays(parts, fields=list(node.type))
        starts = self._starts[0]
        cells = self._cells[starts[node.column] : starts[node.column + 1]]
        if node.op == NULLABLE:
            return self._nullable(node, cells)
        if node.op == ARRAY:
            return self._items(node, cells)
        if node.op in (BYTES, FIXED):
            return self._bytes(node, cells)
        return _numbers(node, cells)

    def _nullable(self, node: Node, cells: Any) -> pa.Array:
        valid = cells != 0
        there = int(valid.sum())
        values = self.of(node.parts[0], there)
        if there == len(cells):
            return values
        return values.take(pa.array(np.cumsum(valid) - 1, mask=~valid))

    def _items(self, node: Node, cells: Any) -> pa.Array:
        offsets = _offsets(cells)
        parts = [self.of(part, int(offsets[-1])) for part in node.parts]
        if pa.types.is_map(node.type):
            fields = [node.type.key_field, node.type.item_field]
            parts = [pa.StructArray.from_arrays(parts, fields=fields)]
        return pa.Array.from_buffers(node.type, len(cells), [None, pa.py_buffer(offsets)], children=parts)

    def _bytes(self, node: Node, cells: Any) -> pa.Array:
        starts = self._starts[1]
        data = self._data[starts[node.column] : starts[node.column + 1]]
        buffers = [None, pa.py_buffer(_offsets(cells)), pa.py_buffer(data)]
        found = pa.Array.from_buffers(pa.binary(), len(cells), buffers)
        return found.cast(node.type) if pa.types.is_string(node.type) else found


def _offsets(lengths: Any) -> Any:
    offsets: Any = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def _numbers(node: Node, cells: Any) -> pa.Array:
    """Return the column of a leaf whose cells are its values."""
    if node.op == ENUM:
        return pa.array(node.symbols, pa.string()).take(pa.array(cells))
    if node.op == DECIMAL:
        words = np.stack([cells, cells >> 63], axis=1)
        return pa.Array.from_buffers(node.type, len(cells), [None, pa.py_buffer(words)])
    if node.op == BOOLEAN:
        return pa.array(cells != 0)
    if node.op == REAL:
        is_double = pa.types.is_float64(node.type)
        return pa.array(cells.view(np.float64) if is_double else cells.astype(np.uint32).view(np.float32))
    if pa.types.is_date32(node.type):
        return pa.array(cells.astype(np.int32)).view(node.type)
    if pa.types.is_int32(node.type):
        return pa.array(cells.astype(np.int32))
    return pa.array(cells * node.factor).view(node.type)
