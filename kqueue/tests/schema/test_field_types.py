from __future__ import annotations

import struct

from kqueue.schema import (
    FileRegionLike,
    array,
    boolean,
    bytes_,
    field,
    float64,
    int8,
    int16,
    int32,
    int64,
    string,
    uint16,
    uuid,
)
from kqueue.schema import struct as a_struct
from kqueue.schema.field_types import ArrayType, FixedSizeType, StructType, field_type_of
from kqueue.tests.tables import for_each


@for_each("kind", [boolean, int8, int16, int32, int64, uint16, float64, uuid])
def test_a_fixed_kind_has_the_size_of_its_struct_format_and_a_zero_of_zeros(kind: FixedSizeType[object]) -> None:
    assert struct.calcsize(">" + kind.code) == kind.size
    assert struct.pack(">" + kind.code, kind.zero) == bytes(kind.size)


def test_kinds_say_what_they_are() -> None:
    assert repr(array(array(int32))) == "array(array(int32))"
    assert (string.zero, bytes_.zero) == ("", b"")


def test_a_struct_class_stands_for_its_kind() -> None:
    @a_struct
    class Pair:
        left: int = field(int8)

    of = field_type_of(Pair)
    assert isinstance(of, StructType)
    assert of.schema is Pair.__schema__  # type: ignore[attr-defined]
    listed = array(Pair)
    assert isinstance(listed, ArrayType)
    assert repr(listed) == "array(Pair)"


def test_a_region_is_known_by_its_mark() -> None:
    class Region:
        is_region = True

        def __len__(self) -> int:
            return 3

        def read(self) -> bytes:
            return b"abc"

    assert isinstance(Region(), FileRegionLike)
    assert not isinstance(b"abc", FileRegionLike)
