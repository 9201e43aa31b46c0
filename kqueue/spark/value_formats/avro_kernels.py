"""Compiled kernel that decodes Avro values to columns of numbers and bytes, by an `AvroPlan`.

Nothing in a value is trusted: each length is compared with the bytes that are left before it is
followed. A value that is not exactly what the plan says is left out, and marked; so is one that has
a meaning which the kernel does not know. Needs `kqueue[fast]`.
"""

from __future__ import annotations

from typing import Any

from numba import int64, uint64

from kqueue.records.jit import compiled
from kqueue.records.record_kernels import copy_bytes
from kqueue.spark.value_formats.avro_plan import (
    ARRAY,
    BOOLEAN,
    BYTES,
    CELLS,
    DATA,
    END,
    ENUM,
    FIXED,
    ITEM_END,
    LONG,
    NULLABLE,
    REAL,
    SAVED,
    STACK,
)

AT, LEFT, TOTAL = range(3)
"""A row of the stack: where an array's items begin, those left of its block, and all."""


@compiled
def _long(data: Any, pos: int, end: int) -> tuple[int, int]:
    """(a whole number, the position after it; -1: there is none)."""
    raw = uint64(0)
    shift = uint64(0)
    while pos < end:
        byte = uint64(data[pos])
        pos += 1
        if shift == uint64(63) and byte > uint64(1):
            break
        raw |= (byte & uint64(127)) << shift
        if byte < uint64(128):
            return int64(raw >> uint64(1)) ^ -int64(raw & uint64(1)), pos
        shift += uint64(7)
    return int64(0), int64(-1)


@compiled
def _fixed_number(data: Any, pos: int, size: int) -> int:
    """The bits of `size` bytes, the lowest first."""
    raw = uint64(0)
    for place in range(size):
        raw |= uint64(data[pos + place]) << uint64(8 * place)
    return int64(raw)


@compiled
def _decimal(data: Any, pos: int, size: int) -> int:
    """The signed number of at most 8 bytes, the highest first."""
    raw = uint64(0)
    if size and data[pos] > 127:
        raw = ~raw
    for place in range(size):
        raw = raw << uint64(8) | uint64(data[pos + place])
    return int64(raw)


@compiled
def _leaf(op: int, argument: int, data: Any, pos: int, end: int) -> tuple[int, int, int]:
    """(what the cell holds, the position after the value; -1: it is wrong, its bytes to copy)."""
    wrong = int64(0), int64(-1), int64(0)
    if op == BOOLEAN:
        if pos >= end or data[pos] > 1:
            return wrong
        return int64(data[pos]), pos + 1, int64(0)
    if op == REAL:
        if end - pos < argument:
            return wrong
        return _fixed_number(data, pos, argument), pos + argument, int64(0)
    if op == FIXED:
        if end - pos < argument:
            return wrong
        return int64(argument), pos + argument, int64(argument)
    value, pos = _long(data, pos, end)
    if pos < 0:
        return wrong
    if op == LONG:
        return (value, pos, int64(0)) if -argument - 1 <= value <= argument else wrong
    if op == ENUM:
        return (value, pos, int64(0)) if 0 <= value < argument else wrong
    if value < 0 or value > end - pos:
        return wrong
    if op == BYTES:
        return value, pos + value, value
    if value > 8:
        return wrong
    number = _decimal(data, pos, value)
    return (number, pos + value, int64(0)) if -argument < number < argument else wrong


@compiled
def _walk(data: Any, pos: int, end: int, program: Any, cells: Any, out: Any, state: Any, write: bool) -> int:
    """Follow the program through one value; return the position after it, -1: it is wrong."""
    pc = 0
    depth = STACK - 1
    while program[pc, 0] != END:
        op, column, argument, target = program[pc, 0], program[pc, 1], program[pc, 2], program[pc, 3]
        pc += 1
        size = int64(0)
        if op in (ARRAY, ITEM_END):
            if op == ARRAY:
                depth += 1
                state[depth, AT], state[depth, LEFT], state[depth, TOTAL] = pc, 0, 0
            else:
                state[depth, LEFT] -= 1
            if state[depth, LEFT] == 0:
                count, pos = _long(data, pos, end)
                if pos >= 0 and count < 0:
                    count = -count
                    _, pos = _long(data, pos, end)
                if pos < 0 or count < 0 or count > end - pos:
                    return -1
                state[depth, LEFT] = count
                state[depth, TOTAL] += count
            if state[depth, LEFT] > 0:
                pc = state[depth, AT]
                continue
            value = state[depth, TOTAL]
            depth -= 1
            pc = target
        elif op == NULLABLE:
            index, pos = _long(data, pos, end)
            if pos < 0 or index < 0 or index > 1:
                return -1
            value = int64(index != argument)
            if not value:
                pc = target
        else:
            value, pos, size = _leaf(op, argument, data, pos, end)
            if pos < 0:
                return -1
        if write:
            cells[state[CELLS, column]] = value
            copy_bytes(data, pos - size, size, out, state[DATA, column])
        state[CELLS, column] += 1
        state[DATA, column] += size
    return int64(pos)


@compiled
def measure(data: Any, offsets: Any, program: Any, state: Any, good: Any, none: Any) -> None:
    """Mark the values that are right, and count their cells and bytes by column in `state`.

    `none`: two empty arrays.
    """
    columns = state.shape[1]
    for row in range(len(good)):
        for column in range(columns):
            state[SAVED, column], state[SAVED + 1, column] = state[CELLS, column], state[DATA, column]
        end = offsets[row + 1]
        good[row] = _walk(data, offsets[row], end, program, none[0], none[1], state, False) == end
        if not good[row]:
            for column in range(columns):
                state[CELLS, column], state[DATA, column] = state[SAVED, column], state[SAVED + 1, column]


@compiled
def fill(data: Any, offsets: Any, program: Any, state: Any, good: Any, filled: Any) -> None:
    """Write the cells and bytes of the values that are right.

    Args:
        state: where each column begins in both.
        filled: the arrays of cells and bytes, as long as `measure` counted.
    """
    for row in range(len(good)):
        if good[row]:
            _walk(data, offsets[row], offsets[row + 1], program, filled[0], filled[1], state, True)
