"""Generates writers: one flat function per (message, version), with all nested structs inlined.

Adjacent fixed-size values, and lengths or counts between them, are packed together. A varint below
128, the usual case, is packed as one byte; otherwise the run is packed piece by piece. Structs
whose variable-size fields are mostly empty (error messages, aborted transactions, tags) get a
`lean` branch: one pack for all fields.

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
    """Return the source of `write(o, out)`, which appends the chunks of `o` to `out`."""
    source = SourceBuilder(
        BYTE=runtime.BYTE,
        uvarint=runtime.uvarint,
        uvarint_text=runtime.uvarint_text,
        shortened_text=runtime.shortened_text,
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
    """One value to pack.

    Attributes:
        varint: the helper that writes it if it is 128 or more; "": it never is.
    """

    code: str
    text: str
    varint: str = ""


class _WriterGenerator:
    """Adds the lines of a schema at one version.

    Attributes:
        pending: values that are not packed yet.
    """

    def __init__(self, source: SourceBuilder, version: int, flexible: bool) -> None:
        self.source = source
        self.version = version
        self.flexible = flexible
        self.append = "w"
        self.pending: list[_Value] = []

    # --- runs

    def flush(self) -> None:
        """Pack and append the pending values."""
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
        """Pack the pending values with the compact length of a large value.

        `size` holds length + 1; up to 3 bytes are packed at once.
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
        """Append a chunk after all pending values."""
        self.flush()
        self.source.line(f"{self.append}({text})")

    # --- structs

    def struct(self, schema: Schema, obj: str) -> None:
        """Write the struct in the local name `obj`. Its last values may still be pending."""
        for each in schema.absent_at(self.version):
            if not each.ignorable:
                self.refuse(schema, each, obj)
        optional = [each for each in schema.fields_at(self.version) if self.mostly_empty(each)]
        tagged = schema.tagged_at(self.version)
        if not (optional or tagged) or self.has_lists(schema):
            self.in_full(schema, obj)
            return
        self.flush()
        tests = [self.test_empty(each, f"{obj}.{each.name}") for each in optional]
        tests += [self.test_default(each, f"{obj}.{each.name}") for each in tagged]
        with self.source.block(f"if {' and '.join(tests)}"):
            self.lean(schema, obj)
            self.flush()
        with self.source.block("else"):
            self.in_full(schema, obj)
            self.flush()

    def in_full(self, schema: Schema, obj: str) -> None:
        for each in schema.fields_at(self.version):
            self.field(schema, each, obj)
        if self.flexible:
            self.tags(schema, obj)

    def lean(self, schema: Schema, obj: str) -> None:
        """Write the struct with all mostly empty fields empty."""
        for each in schema.fields_at(self.version):
            if not self.mostly_empty(each):
                self.field(schema, each, obj)
                continue
            compact = self.flexible and each.compact
            code = "B" if compact else "h" if each.kind is string else "b" if isinstance(each.kind, StructType) else "i"
            empty = "1" if compact else "0"
            null = "255" if isinstance(each.kind, StructType) and compact else "0" if compact else "-1"
            if isinstance(each.kind, ArrayType) and self.version in each.nullable:
                empty = f"{null} if {obj}.{each.name} is None else {empty}"
            elif not isinstance(each.kind, ArrayType):
                empty = null
            self.pending.append(_Value(code, empty))
        if self.flexible:
            self.pending.append(_Value("B", "0"))

    def mostly_empty(self, each: Field) -> bool:
        """Return whether a variable-size field is usually null or empty."""
        if each.kind is record_data or isinstance(each.kind, FixedSizeType):
            return False
        if isinstance(each.kind, ArrayType):
            return isinstance(each.kind.of, StructType) and (self.version in each.nullable or each.ignorable)
        return self.version in each.nullable

    def has_lists(self, schema: Schema) -> bool:
        """Return whether the struct usually holds other structs.

        Then two branches would generate too much source.
        """
        return any(
            isinstance(each.kind.of if isinstance(each.kind, ArrayType) else each.kind, StructType)
            for each in schema.fields_at(self.version)
            if not self.mostly_empty(each)
        )

    def test_empty(self, each: Field, text: str) -> str:
        return f"not {text}" if isinstance(each.kind, ArrayType) else f"{text} is None"

    def test_default(self, each: Field, text: str) -> str:
        """Return an expression that is true if the field has its default.

        For structs it is true only for the shared default object.
        """
        if isinstance(each.kind, ArrayType) and each.default == ():
            return f"({text} is not None and not {text})" if self.version in each.nullable else f"not {text}"
        same = "is" if each.default is None or isinstance(each.kind, StructType) else "=="
        return f"{text} {same} {self.source.constant(each.default)}"

    def test_changed(self, each: Field, text: str) -> str:
        """Return an expression that is true if the field does not have its default."""
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

    def refuse(self, schema: Schema, each: Field, obj: str) -> None:
        text = f"{obj}.{each.name}"
        arguments = f"{schema.name!r}, {each.name!r}, '{each.versions}', {self.version}, {text}"
        self.source.line(f"if {self.test_changed(each, text)}: refuse_version({arguments})")

    def tags(self, schema: Schema, obj: str) -> None:
        tagged = schema.tagged_at(self.version)
        if not tagged:
            self.pending.append(_Value("B", "0"))
            return
        source = self.source
        self.flush()
        count, section = source.fresh("n"), source.fresh("tags")
        source.line(f"{count} = 0; {section} = []")
        for each in tagged:
            text = f"{obj}.{each.name}"
            with source.block(f"if {self.test_changed(each, text)}"):
                outer, chunks = self.append, source.fresh("t")
                self.append = source.fresh("w")
                source.line(f"{chunks} = []; {self.append} = {chunks}.append")
                self.field(schema, each, obj)
                self.flush()
                source.line(f"{section} += (uvarint({each.tag}), uvarint(sum(map(len, {chunks}))), *{chunks})")
                source.line(f"{count} += 1")
                self.append = outer
        source.line(f"{self.append}(BYTE[{count}])")
        source.line(f"for x in {section}: {self.append}(x)")

    # --- fields

    def field(self, schema: Schema, each: Field, obj: str) -> None:
        text = f"{obj}.{each.name}"
        nullable = self.version in each.nullable or each.kind is record_data
        if not nullable and each.nullable.low <= each.nullable.high:
            test = f"if {text} is None: refuse_null({schema.name!r}, {each.name!r}, '{each.nullable}', {self.version})"
            self.source.line(test)
        if each.kind is record_data and self.version not in each.nullable:
            nullable = False
        if isinstance(each.kind, StructType):
            self.nested(each.kind, text, nullable, null=b"\0" if self.version in each.tagged else b"\xff")
            return
        compact = self.flexible and each.compact
        if isinstance(each.kind, LengthPrefixedType):
            self.sequence(each.kind, text, nullable, compact, each.shortened)
        else:
            self.value(f"{schema.name!r}, {each.name!r}", each.kind, text, nullable, compact)

    def value(self, where: str, kind: FieldType[Any], text: str, nullable: bool, compact: bool) -> None:
        """Write a value of any kind; `where` are the first arguments of errors."""
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

    def nested(self, kind: StructType[Any], text: str, nullable: bool, null: bytes = b"\xff") -> None:
        """Write a struct; `null` is the marker of None."""
        source, inner = self.source, self.source.fresh("o")
        source.line(f"{inner} = {text}")
        if not nullable:
            self.struct(kind.schema, inner)
            return
        self.flush()
        with source.block(f"if {inner} is None"):
            self.now(repr(null))
        with source.block("else"):
            self.pending.append(_Value("b", "1"))
            self.struct(kind.schema, inner)
            self.flush()

    def sequence(
        self, kind: LengthPrefixedType[Any], text: str, nullable: bool, compact: bool, shortened: bool = False
    ) -> None:
        """Write a string, bytes or records; `shortened`: a string that is too long, too.

        The length joins the preceding run; the content is its own chunk.
        """
        source, content, size = self.source, self.source.fresh("s"), self.source.fresh("n")
        source.line(f"{content} = {text}")
        encoded = f"shortened_text({content})" if shortened else f"{content}.encode()"
        encode = f"{content} = {encoded}" if kind is string else ""
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
