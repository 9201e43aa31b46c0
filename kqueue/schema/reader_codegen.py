"""Generates readers: one flat function per (message, version), with all nested structs inlined.

Adjacent fixed-size fields, and the length or count after them, are unpacked together. The first
byte of a varint is used as its whole value, because it nearly always is; longer varints continue in
`runtime.uvarint_rest`.

In the source, `buf` is the frame, `p` the position, `end` its size, `n` the length or count just
read. A counted reader also has `room`: how many items (elements of arrays, and tagged fields) the
message may still hold. It is checked before an array is built.

Strings are decoded strictly, which is the fastest. Kafka's readers replace bytes that are not
UTF-8, so a message that has such bytes is read again by a reader of its own, which does the same.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from contextlib import nullcontext
from functools import cache, partial
from typing import Any

from kqueue.schema import runtime
from kqueue.schema.field_types import (
    ArrayType,
    FieldType,
    FixedSizeType,
    LengthPrefixedType,
    StructType,
    record_data,
    string,
)
from kqueue.schema.source_builder import SourceBuilder
from kqueue.schema.structs import Field, Schema


def reader_source(
    schema: Schema, version: int, flexible: bool, *, counted: bool = False, replacing: bool = False
) -> SourceBuilder:
    """Return the source of `read(buf, p)`, or of `read(buf, p, room)` if it is `counted`.

    Args:
        replacing: decodes strings as Kafka does, with replacement characters for invalid bytes.
    """
    source = SourceBuilder(
        uvarint_rest=runtime.uvarint_rest,
        uvarint_at=runtime.uvarint_at,
        skip_tags=runtime.skip_tags,
        tag_count=runtime.tag_count,
        fail_room=runtime.fail_room,
        fail_size=runtime.fail_size,
        fail_count=runtime.fail_count,
        fail_marker=runtime.fail_marker,
        fail_tag_size=runtime.fail_tag_size,
        malformed=runtime.malformed,
        TEXT=runtime.TEXT,
        COMPACT_TEXT=runtime.COMPACT_TEXT,
        unpack_from=struct.unpack_from,
        READ_ERRORS=runtime.READ_ERRORS,
        replaced_text=runtime.replaced_text,
        replacing_reader=cache(partial(_replacing_reader, schema, version, flexible, counted)),
    )
    arguments = "buf, p, room" if counted else "buf, p"
    with source.block(f"def read({arguments})"):
        source.line("start, end = p, len(buf)" if not counted else "start, end, items_max = p, len(buf), room")
        with source.block("try"):
            body = _ReaderGenerator(source, version, flexible, counted, replacing)
            obj = body.struct(schema)
            body.flush()
            source.line(f"return {obj}, p")
        if not replacing:
            with source.block("except UnicodeDecodeError"):
                source.line(f"return replacing_reader()(buf, start{', items_max' if counted else ''})")
        with source.block("except READ_ERRORS"):
            source.line(f"raise malformed({schema.name!r}, {version}, p, end) from None")
    return source


def _replacing_reader(schema: Schema, version: int, flexible: bool, counted: bool) -> Callable[..., Any]:
    source = reader_source(schema, version, flexible, counted=counted, replacing=True)
    return source.compile("read", f"{schema.name} v{version} replacing reader")


class _ReaderGenerator:
    """Adds the lines of a schema at one version.

    Attributes:
        pending: fixed-size values that are not unpacked yet.
    """

    def __init__(self, source: SourceBuilder, version: int, flexible: bool, counted: bool, replacing: bool) -> None:
        self.source = source
        self.version = version
        self.flexible = flexible
        self.counted = counted
        self.replacing = replacing
        self.pending: list[tuple[FixedSizeType[Any], str]] = []

    # --- runs of fixed size

    def later(self, kind: FixedSizeType[Any], target: str) -> None:
        """Read a fixed-size value into `target` together with the adjacent ones."""
        self.pending.append((kind, target))

    def flush(self) -> None:
        """Unpack the pending values and advance `p` past them."""
        if not self.pending:
            return
        codes = "".join(kind.code for kind, _ in self.pending)
        targets = [target for _, target in self.pending]
        if codes == "B":
            self.source.line(f"{targets[0]} = buf[p]")
        elif codes == "?":
            self.source.line(f"{targets[0]} = buf[p] != 0")
        else:
            self.source.line(
                f"{', '.join(targets)}{',' if len(targets) == 1 else ''} = {self.source.unpacker(codes)}(buf, p)"
            )
        self.source.line(f"p += {sum(kind.size for kind, _ in self.pending)}")
        self.pending.clear()

    # --- structs

    def struct(self, schema: Schema) -> str:
        """Read a struct; return its local name. Its last values may still be pending."""
        source, obj = self.source, self.source.fresh("o")
        source.line(f"{obj} = {source.constant(_maker(schema.cls), 'new_')}()")
        for each in schema.absent_at(self.version):
            self.default(each, obj)
        for each in schema.fields_at(self.version):
            self.field(schema, each, f"{obj}.{each.name}")
        if self.flexible:
            self.tags(schema, obj)
        return obj

    def default(self, each: Field, obj: str) -> None:
        fresh_list = isinstance(each.kind, ArrayType) and each.default == ()
        self.source.line(f"{obj}.{each.name} = {'[]' if fresh_list else self.source.constant(each.default)}")

    def tags(self, schema: Schema, obj: str) -> None:
        source, tagged = self.source, schema.tagged_at(self.version)
        for each in tagged:
            self.default(each, obj)
        if not tagged:
            self.no_tags()
            return
        self.later(_FIRST_BYTE, "n")
        self.flush()
        with source.block("if n"):
            left = source.fresh("left")
            source.line("if n > 127: n, p = uvarint_rest(buf, p, n)")
            source.line(f"{left} = n")
            self.count(f"{schema.name!r}, 'tagged fields'", left)
            with source.block(f"while {left}"):
                source.line(f"{left} -= 1")
                tag, stop = source.fresh("tag"), source.fresh("stop")
                source.line(f"{tag}, p = uvarint_at(buf, p)")
                source.line("n, p = uvarint_at(buf, p)")
                source.line(f"{stop} = p + n")
                source.line(f"if {stop} > end: fail_size({schema.name!r}, f'tag {{{tag}}}', n, p, end)")
                for index, each in enumerate(tagged):
                    with source.block(f"{'elif' if index else 'if'} {tag} == {each.tag}"):
                        self.field(schema, each, f"{obj}.{each.name}")
                        self.flush()
                        source.line(f"if p != {stop}: fail_tag_size({schema.name!r}, {tag}, p, {stop})")
                with source.block("else"):
                    source.line(f"p = {stop}")

    def no_tags(self) -> None:
        """Skip the tagged fields of a struct that declares none."""
        if self.pending or self.counted:
            self.later(_FIRST_BYTE, "n")
            self.flush()
            with self.source.block("if n"):
                if self.counted:
                    self.source.line("x = tag_count(buf, p, n)")
                    self.count("'struct', 'tagged fields'", "x")
                self.source.line("p = skip_tags(buf, p, n, end)")
            return
        self.source.line("if buf[p]: p = skip_tags(buf, p + 1, buf[p], end)")
        self.source.line("else: p += 1")

    def count(self, where: str, count: str) -> None:
        """Subtract `count` items from `room`, before any of them is created."""
        if self.counted:
            self.source.line(f"room -= {count}")
            self.source.line(f"if room < 0: fail_room({where}, {count}, room, p, end)")

    # --- fields

    def field(self, schema: Schema, each: Field, target: str) -> None:
        nullable = self.version in each.nullable
        compact = self.flexible and each.compact
        where = f"{schema.name!r}, {each.name!r}"
        if isinstance(each.kind, StructType):
            self.nested(where, each.kind, target, nullable, null=0 if self.version in each.tagged else -1)
            return
        self.value(where, each.kind, target, nullable, compact)

    def value(self, where: str, kind: FieldType[Any], target: str, nullable: bool, compact: bool) -> None:
        """Read a value of any kind into `target`; `where` are the first arguments of errors."""
        if isinstance(kind, FixedSizeType):
            self.later(kind, target)
        elif isinstance(kind, LengthPrefixedType):
            if kind is string:
                self.text(where, target, nullable, compact)
            else:
                self.blob(where, kind, target, nullable, compact)
        elif isinstance(kind, ArrayType):
            self.array(where, kind, target, nullable, compact)
        else:
            assert isinstance(kind, StructType)
            self.nested(where, kind, target, nullable)

    def nested(self, where: str, kind: StructType[Any], target: str, nullable: bool, null: int = -1) -> None:
        """Read a struct; `null` is the marker of None."""
        source = self.source
        if not nullable:
            source.line(f"{target} = {self.struct(kind.schema)}")
            return
        self.later(_MARKER, "n")
        self.flush()
        with source.block("if n == 1"):
            obj = self.struct(kind.schema)
            self.flush()
            source.line(f"{target} = {obj}")
        with source.block(f"elif n == {null}"):
            source.line(f"{target} = None")
        with source.block("else"):
            source.line(f"fail_marker({where}, n, p - 1, end, {null})")

    def text(self, where: str, target: str, nullable: bool, compact: bool) -> None:
        """Read a string.

        The unpacker of its size reads a short string twice as fast as slice and decode.
        """
        source = self.source
        self.later(_FIRST_BYTE if compact else _INT16, "n")
        self.flush()
        with source.block("if 0 < n < 128" if compact else "if 0 <= n < 128"):
            content = f"{'COMPACT_TEXT' if compact else 'TEXT'}[n](buf, p)[0]"
            source.line(f"{target} = {self.decoded(content)}")
            source.line("p += n - 1" if compact else "p += n")
        if nullable:
            with source.block("elif not n" if compact else "elif n == -1"):
                source.line(f"{target} = None")
        with source.block("else"):
            if compact:
                source.line("if n: n, p = uvarint_rest(buf, p, n)")
                source.line("n -= 1")
            source.line("q = p + n")
            source.line(f"if not 0 <= n <= {runtime.STRING_SIZE_MAX} or q > end: fail_size({where}, n, p, end)")
            source.line(f"{target} = {self.decoded('bytes(buf[p:q])')}")
            source.line("p = q")

    def decoded(self, content: str) -> str:
        """Return the expression of the text of these bytes."""
        return f"replaced_text({content})" if self.replacing else f"{content}.decode()"

    def blob(self, where: str, kind: LengthPrefixedType[Any], target: str, nullable: bool, compact: bool) -> None:
        """Read bytes (copied) or records (a view)."""
        source, size = self.source, "n - 1" if compact else "n"
        self.later(_FIRST_BYTE if compact else _INT32, "n")
        self.flush()
        if compact:
            self.rest_of_size()
        if nullable:
            with source.block("if not n" if compact else "if n == -1"):
                source.line(f"{target} = None")
        with source.block("else") if nullable else nullcontext():
            source.line(f"q = p + {size}")
            invalid = "n < 0 or " if not compact else "" if nullable else "not n or "
            source.line(f"if {invalid}q > end: fail_size({where}, {size}, p, end)")
            source.line(f"{target} = {'buf[p:q]' if kind is record_data else 'bytes(buf[p:q])'}")
            source.line("p = q")

    def rest_of_size(self) -> None:
        """Finish the varint in `n`.

        A varint of two bytes (up to 16 KB), the usual case for records, is finished inline.
        """
        with self.source.block("if n > 127"):
            self.source.line("x = buf[p]")
            with self.source.block("if x < 128"):
                self.source.line("n = n & 127 | x << 7")
                self.source.line("p += 1")
            self.source.line("else: n, p = uvarint_rest(buf, p, n)")

    # --- arrays

    def array(self, where: str, kind: ArrayType[Any], target: str, nullable: bool, compact: bool) -> None:
        source, count = self.source, self.source.fresh("left")
        self.later(_FIRST_BYTE if compact else _INT32, "n" if compact else count)
        self.flush()
        if compact:
            source.line("if n > 127: n, p = uvarint_rest(buf, p, n)")
            source.line(f"{count} = n - 1")
        if nullable:
            with source.block(f"if {count} == -1"):
                source.line(f"{target} = None")
        with source.block("else") if nullable else nullcontext():
            least = least_size(kind.of, self.version, self.flexible)
            needed = count if least == 1 else f"{count} * {least}"
            source.line(f"if {count} < 0 or {needed} > end - p: fail_count({where}, {count}, {least}, p, end)")
            self.count(where, count)
            if isinstance(kind.of, FixedSizeType):
                self.numbers(kind.of, target, count)
            else:
                self.elements(where, kind.of, target, count, compact)

    def elements(self, where: str, of: FieldType[Any], target: str, left: str, compact: bool) -> None:
        source, items = self.source, self.source.fresh("l")
        source.line(f"{target} = {items} = []")
        with source.block(f"while {left}"):  # for few elements, much cheaper than a range
            source.line(f"{left} -= 1")
            if isinstance(of, StructType):
                obj = self.struct(of.schema)
                self.flush()
                source.line(f"{items}.append({obj})")
            else:
                self.value(where, of, "x", nullable=False, compact=compact)
                source.line(f"{items}.append(x)")

    def numbers(self, of: FixedSizeType[Any], target: str, count: str) -> None:
        source = self.source
        source.line(f"q = p + {count} * {of.size}")
        if of.code == "16s":
            source.line(f"{target} = [bytes(buf[i:i + 16]) for i in range(p, q, 16)]")
        else:
            source.line(f"{target} = list(unpack_from(f'>{{{count}}}{of.code}', buf, p))")
        source.line("p = q")


def _maker(cls: type[Any]) -> Callable[[], Any]:
    """Return a function that creates an object of this class without setting its fields."""
    return partial(object.__new__, cls)


_FIRST_BYTE: FixedSizeType[int] = FixedSizeType("first byte of a varint", 0, "B", 1)
_MARKER: FixedSizeType[int] = FixedSizeType("marker", 0, "b", 1)
_INT16: FixedSizeType[int] = FixedSizeType("length", 0, "h", 2)
_INT32: FixedSizeType[int] = FixedSizeType("length", 0, "i", 4)


def least_size(kind: FieldType[Any], version: int, flexible: bool) -> int:
    """Return the fewest bytes that a non-null value of this kind takes.

    Readers use it to limit a count before they allocate.
    """
    if isinstance(kind, FixedSizeType):
        return kind.size
    if isinstance(kind, StructType):
        schema: Schema = kind.schema
        return sum(_least_of_field(each, version, flexible) for each in schema.fields_at(version)) + flexible
    if flexible:
        return 1
    return 2 if kind is string else 4


def _least_of_field(each: Field, version: int, flexible: bool) -> int:
    if isinstance(each.kind, StructType) and version in each.nullable:
        return 1
    return least_size(each.kind, version, flexible and each.compact)
