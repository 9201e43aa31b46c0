"""Writes the source of writers: one flat function per (message, version), with all nested structs
inlined.

Values of fixed size that follow each other, and lengths or counts between them, are packed
together. A varint is packed as one byte where it is below 128, which it nearly always is; else the
run is packed piece by piece. Structs whose fields of varying size are mostly empty (error messages,
aborted transactions, tags) get a `lean` branch: one pack for all.

In the source, `w` (or `w7` within a tagged field) appends a chunk.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

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


def writer_source(schema: Schema, version: int, flexible: bool) -> SourceBuilder:
    """The source of `write(o, out)`, which appends the chunks of `o` to `out`."""
    source = SourceBuilder(
        BYTE=runtime.BYTE,
        uvarint=runtime.uvarint,
        uvarint_text=runtime.uvarint_text,
        check_uuid=runtime.check_uuid,
        refuse_null=runtime.refuse_null,
        refuse_version=runtime.refuse_version,
        unencodable=runtime.unencodable,
        pack=struct.pack,
        WRITE_ERRORS=runtime.WRITE_ERRORS,
    )
    with source.block("def write(o, out)"):
        source.line("w = out.append")
        with source.block("try"):
            writer = _WriterGenerator(source, version, flexible)
            writer.struct(schema, "o")
            writer.flush()
        with source.block("except WRITE_ERRORS as error"):
            source.line(f"raise unencodable({schema.name!r}, {version}, error) from error")
    return source


class _Value(NamedTuple):
    """One value that waits to be packed. `varint`: the helper that writes it where it is 128 or
    more, "" where it can't be.
    """

    code: str
    text: str
    varint: str = ""


class _WriterGenerator:
    """Goes through a schema at one version and adds lines. `pending` are the values not yet packed."""

    def __init__(self, source: SourceBuilder, version: int, flexible: bool) -> None:
        self.source = source
        self.version = version
        self.flexible = flexible
        self.append = "w"
        self.pending: list[_Value] = []

    # --- runs

    def flush(self) -> None:
        """Pack and append what is pending."""
        if not self.pending:
            return
        run, self.pending = self.pending, []
        guards = [f"{value.text} < 128" for value in run if value.varint]
        if not guards or len(run) == 1:
            self.pack(run)
            return
        with self.source.block(f"if {' and '.join(guards)}"):
            self.pack([value._replace(varint="") for value in run])
        with self.source.block("else"):
            part: list[_Value] = []
            for value in run:
                if value.varint:
                    self.pack(part)
                    self.pack([value])
                    part = []
                else:
                    part.append(value)
            self.pack(part)

    def flush_size(self, size: str) -> None:
        """Pack what is pending with the compact length of something big, `size` holding length + 1:
        up to 3 bytes at once.
        """
        run, self.pending = self.pending, []
        if any(value.varint for value in run) or not run:
            self.pending = run
            self.flush()
            run = []
        one, two, three = _Value("B", size), _Value("B", f"{size} & 127 | 128"), _Value("B", f"{size} >> 7 & 127 | 128")
        with self.source.block(f"if {size} < 128"):
            self.pack([*run, one])
        with self.source.block(f"elif {size} < 16384"):
            self.pack([*run, two, _Value("B", f"{size} >> 7")])
        with self.source.block(f"elif {size} < 2097152"):
            self.pack([*run, two, three, _Value("B", f"{size} >> 14")])
        with self.source.block("else"):
            self.pack(run)
            self.pack([_Value("B", size, "uvarint")])

    def pack(self, run: list[_Value]) -> None:
        if not run:
            return
        codes = "".join(value.code for value in run)
        texts = ", ".join(value.text for value in run)
        if len(run) == 1 and run[0].varint:
            text = f"BYTE[{texts}] if {texts} < 128 else {run[0].varint}({texts})"
        elif all(value.code == "B" and value.text.isdigit() for value in run):
            text = repr(bytes(int(value.text) for value in run))
        elif codes == "B":
            text = f"BYTE[{texts}]"
        else:
            text = f"{self.source.packer(codes)}({texts})"
        self.source.line(f"{self.append}({text})")

    def now(self, text: str) -> None:
        """Append a chunk behind all that is pending."""
        self.flush()
        self.source.line(f"{self.append}({text})")

    # --- structs

    def struct(self, schema: Schema, made: str) -> None:
        """Write the struct in the local name `made`. Its last values may still be pending."""
        for each in schema.absent_at(self.version):
            if not each.ignorable:
                self.refuse(schema, each, made)
        optional = [each for each in schema.fields_at(self.version) if self.mostly_empty(each)]
        tagged = schema.tagged_at(self.version)
        if not (optional or tagged) or self.has_lists(schema):
            self.in_full(schema, made)
            return
        self.flush()
        tests = [self.test_empty(each, f"{made}.{each.name}") for each in optional]
        tests += [self.test_default(each, f"{made}.{each.name}") for each in tagged]
        with self.source.block(f"if {' and '.join(tests)}"):
            self.lean(schema, made)
            self.flush()
        with self.source.block("else"):
            self.in_full(schema, made)
            self.flush()

    def in_full(self, schema: Schema, made: str) -> None:
        for each in schema.fields_at(self.version):
            self.field(schema, each, made)
        if self.flexible:
            self.tags(schema, made)

    def lean(self, schema: Schema, made: str) -> None:
        """The struct where all that is mostly empty is empty."""
        for each in schema.fields_at(self.version):
            if not self.mostly_empty(each):
                self.field(schema, each, made)
                continue
            compact = self.flexible and each.compact
            code = "B" if compact else "h" if each.kind is string else "b" if isinstance(each.kind, StructType) else "i"
            empty = "1" if compact else "0"
            null = "255" if isinstance(each.kind, StructType) and compact else "0" if compact else "-1"
            if isinstance(each.kind, ArrayType) and self.version in each.nullable:
                empty = f"{null} if {made}.{each.name} is None else {empty}"
            elif not isinstance(each.kind, ArrayType):
                empty = null
            self.pending.append(_Value(code, empty))
        if self.flexible:
            self.pending.append(_Value("B", "0"))

    def mostly_empty(self, each: Field) -> bool:
        """Whether a field of varying size is likely to be null or to have no elements."""
        if each.kind is record_data or isinstance(each.kind, FixedSizeType):
            return False
        if isinstance(each.kind, ArrayType):
            return isinstance(each.kind.of, StructType) and (self.version in each.nullable or each.ignorable)
        return self.version in each.nullable

    def has_lists(self, schema: Schema) -> bool:
        """Whether this one holds other structs as a rule: then two branches would double too much
        source.
        """
        return any(
            isinstance(each.kind.of if isinstance(each.kind, ArrayType) else each.kind, StructType)
            for each in schema.fields_at(self.version)
            if not self.mostly_empty(each)
        )

    def test_empty(self, each: Field, text: str) -> str:
        return f"not {text}" if isinstance(each.kind, ArrayType) else f"{text} is None"

    def test_default(self, each: Field, text: str) -> str:
        """An expression that holds where the field has its default; for structs, only where it is
        the shared one.
        """
        if isinstance(each.kind, ArrayType) and each.default == ():
            return f"({text} is not None and not {text})" if self.version in each.nullable else f"not {text}"
        same = "is" if each.default is None or isinstance(each.kind, StructType) else "=="
        return f"{text} {same} {self.source.constant(each.default)}"

    def test_changed(self, each: Field, text: str) -> str:
        """An expression that holds where the field has not its default."""
        if isinstance(each.kind, ArrayType) and each.default == ():
            return f"{text} is None or {text}" if each.nullable.low <= each.nullable.high else text
        default = self.source.constant(each.default)
        if each.default is None:
            return f"{text} is not None"
        return (
            f"{text} is not {default} and {text} != {default}"
            if isinstance(each.kind, StructType)
            else f"{text} != {default}"
        )

    def refuse(self, schema: Schema, each: Field, made: str) -> None:
        text = f"{made}.{each.name}"
        arguments = f"{schema.name!r}, {each.name!r}, '{each.versions}', {self.version}, {text}"
        self.source.line(f"if {self.test_changed(each, text)}: refuse_version({arguments})")

    def tags(self, schema: Schema, made: str) -> None:
        tagged = schema.tagged_at(self.version)
        if not tagged:
            self.pending.append(_Value("B", "0"))
            return
        source = self.source
        self.flush()
        count, section = source.fresh("n"), source.fresh("tags")
        source.line(f"{count} = 0; {section} = []")
        for each in tagged:
            text = f"{made}.{each.name}"
            with source.block(f"if {self.test_changed(each, text)}"):
                outer, chunks = self.append, source.fresh("t")
                self.append = source.fresh("w")
                source.line(f"{chunks} = []; {self.append} = {chunks}.append")
                self.field(schema, each, made)
                self.flush()
                source.line(f"{section} += (uvarint({each.tag}), uvarint(sum(map(len, {chunks}))), *{chunks})")
                source.line(f"{count} += 1")
                self.append = outer
        source.line(f"{self.append}(BYTE[{count}])")
        source.line(f"for x in {section}: {self.append}(x)")

    # --- fields

    def field(self, schema: Schema, each: Field, made: str) -> None:
        text = f"{made}.{each.name}"
        nullable = self.version in each.nullable or each.kind is record_data
        if not nullable and each.nullable.low <= each.nullable.high:
            test = f"if {text} is None: refuse_null({schema.name!r}, {each.name!r}, '{each.nullable}', {self.version})"
            self.source.line(test)
        if each.kind is record_data and self.version not in each.nullable:
            nullable = False
        self.value(f"{schema.name!r}, {each.name!r}", each.kind, text, nullable, self.flexible and each.compact)

    def value(self, where: str, kind: FieldType[Any], text: str, nullable: bool, compact: bool) -> None:
        """Write a value of any kind; `where` are the first arguments of the failures."""
        if isinstance(kind, FixedSizeType):
            if kind.code == "16s":
                self.source.line(f"check_uuid({where}, {text})")
            self.pending.append(_Value(kind.code, text))
        elif isinstance(kind, LengthPrefixedType):
            self.sequence(kind, text, nullable, compact)
        elif isinstance(kind, ArrayType):
            self.array(where, kind.of, text, nullable, compact)
        else:
            assert isinstance(kind, StructType)
            self.nested(kind, text, nullable)

    def nested(self, kind: StructType[Any], text: str, nullable: bool) -> None:
        source, inner = self.source, self.source.fresh("o")
        source.line(f"{inner} = {text}")
        if not nullable:
            self.struct(kind.schema, inner)
            return
        self.flush()
        with source.block(f"if {inner} is None"):
            self.now(repr(b"\xff"))
        with source.block("else"):
            self.pending.append(_Value("b", "1"))
            self.struct(kind.schema, inner)
            self.flush()

    def sequence(self, kind: LengthPrefixedType[Any], text: str, nullable: bool, compact: bool) -> None:
        """Write a string, bytes or records: the length joins the run before it, the content is a
        chunk of its own.
        """
        source, content, size = self.source, self.source.fresh("s"), self.source.fresh("n")
        source.line(f"{content} = {text}")
        encode = f"{content} = {content}.encode()" if kind is string else ""
        length = f"len({content}) + 1" if compact else f"len({content})"
        if nullable:
            with source.block(f"if {content} is None"):
                source.line(f"{size} = {0 if compact else -1}")
            with source.block("else"):
                if encode:
                    source.line(encode)
                source.line(f"{size} = {length}")
        else:
            if encode:
                source.line(encode)
            source.line(f"{size} = {length}")
        if compact and kind is not string:
            self.flush_size(size)
        else:
            self.pending.append(self.length(kind, size, compact))
            self.flush()
        source.line(f"if {size} > {1 if compact else 0}: {self.append}({content})")

    def length(self, kind: FieldType[Any], size: str, compact: bool) -> _Value:
        if compact:
            return _Value("B", size, "uvarint_text" if kind is string else "uvarint")
        return _Value("h" if kind is string else "i", size)

    # --- arrays

    def array(self, where: str, of: FieldType[Any], text: str, nullable: bool, compact: bool) -> None:
        source, items, count = self.source, self.source.fresh("l"), self.source.fresh("n")
        source.line(f"{items} = {text}")
        length = f"len({items}) + 1" if compact else f"len({items})"
        source.line(
            f"{count} = {0 if compact else -1} if {items} is None else {length}" if nullable else f"{count} = {length}"
        )
        self.pending.append(self.length(_ARRAY, count, compact))
        self.flush()
        with source.block(f"if {items}"):
            if isinstance(of, FixedSizeType) and of.code != "16s":
                source.line(f"{self.append}(pack(f'>{{len({items})}}{of.code}', *{items}))")
                return
            item = source.fresh("o")
            with source.block(f"for {item} in {items}"):
                if isinstance(of, StructType):
                    self.struct(of.schema, item)
                else:
                    self.value(where, of, item, nullable=False, compact=compact)
                self.flush()


_ARRAY: FieldType[Any] = FieldType("array", ())
