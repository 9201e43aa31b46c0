"""Whether an Avro reader can read what a writer wrote, and where not.

Source: the Avro specification 1.12, "Schema Resolution"; kinds of incompatibilities and paths as
Apache Avro's `SchemaCompatibility` has them. Names are compared without their namespaces.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kqueue.schema_registry.schemas.avro.model import (
    NO_DEFAULT,
    AvroArray,
    AvroEnum,
    AvroField,
    AvroFixed,
    AvroMap,
    AvroRecord,
    AvroType,
    AvroUnion,
    NamedAvroType,
)
from kqueue.schema_registry.schemas.contract import Incompatibility
from kqueue.schema_registry.schemas.limits import (
    INCOMPATIBILITIES_MAX,
    ComparisonBudget,
    ComparisonTooLarge,
    too_large,
)
from kqueue.schema_registry.schemas.pair_memo import PairMemo

PROMOTIONS: Mapping[str, tuple[str, ...]] = {
    "long": ("int",),
    "float": ("int", "long"),
    "double": ("int", "long", "float"),
    "bytes": ("string",),
    "string": ("bytes",),
}
"""The types of writers that a reader's type takes besides its own."""
_Found = tuple[Incompatibility, ...]
_NONE: Final[_Found] = ()


def avro_incompatibilities(reader: AvroType, writer: AvroType) -> list[Incompatibility]:
    """Return why the reader can't read all that the writer wrote; empty: it can."""
    try:
        return list(dict.fromkeys(_AvroComparison().compare(reader, writer, ())))
    except (ComparisonTooLarge, RecursionError) as error:
        return [too_large(error)]


class _AvroComparison:
    """One comparison. A pair of types is compared once, and not within itself."""

    def __init__(self) -> None:
        self._budget = ComparisonBudget()
        self._memo: PairMemo[Incompatibility] = PairMemo(self._budget)

    def compare(self, reader: AvroType, writer: AvroType, path: tuple[str, ...]) -> _Found:
        """Return the reasons of a pair. `path`: where it is first met."""
        return self._memo.result(reader, writer, lambda: self._compare(reader, writer, path)[:INCOMPATIBILITIES_MAX])

    def _compare(self, reader: AvroType, writer: AvroType, path: tuple[str, ...]) -> _Found:
        if isinstance(writer, AvroUnion):
            return self._from_union(reader, writer, path)
        if isinstance(reader, AvroUnion):
            if any(_may_match(one, writer) and not self.compare(one, writer, path) for one in reader.branches):
                return _NONE
            return (_missing_branch(writer, path),)
        if isinstance(reader, AvroArray) and isinstance(writer, AvroArray):
            return self.compare(reader.items, writer.items, (*path, "items"))
        if isinstance(reader, AvroMap) and isinstance(writer, AvroMap):
            return self.compare(reader.values, writer.values, (*path, "values"))
        if isinstance(reader, AvroFixed) and isinstance(writer, AvroFixed):
            return _names(reader, writer, path) + _sizes(reader, writer, path)
        if isinstance(reader, AvroEnum) and isinstance(writer, AvroEnum):
            return _names(reader, writer, path) + self._symbols(reader, writer, path)
        if isinstance(reader, AvroRecord) and isinstance(writer, AvroRecord):
            return _names(reader, writer, path) + self._fields(reader, writer, (*path, "fields"))
        if reader.kind == writer.kind or writer.kind in PROMOTIONS.get(reader.kind, ()):
            return _NONE
        return (_type_mismatch(reader, writer, path),)

    def _from_union(self, reader: AvroType, writer: AvroUnion, path: tuple[str, ...]) -> _Found:
        found: _Found = _NONE
        for index, branch in enumerate(writer.branches):
            within = (*path, str(index))
            reasons = self.compare(reader, branch, within)
            if reasons and isinstance(reader, AvroUnion):
                reasons = (_missing_branch(branch, within),)
            found = (found + reasons)[:INCOMPATIBILITIES_MAX]
        return found

    def _fields(self, reader: AvroRecord, writer: AvroRecord, path: tuple[str, ...]) -> _Found:
        self._budget.spend(len(writer.fields))
        written = {field.name: field for field in writer.fields}
        found: _Found = _NONE
        for index, field in enumerate(reader.fields):
            within = (*path, str(index))
            names = [name for name in (field.name, *field.aliases) if name in written]
            if len(names) > 1:
                reasons: _Found = (_ambiguous(field, names, within),)
            elif names:
                reasons = self.compare(field.type, written[names[0]].type, (*within, "type"))
            elif field.default is NO_DEFAULT:
                reasons = (_missing_default(field, within),)
            else:
                continue
            found = (found + reasons)[:INCOMPATIBILITIES_MAX]
        return found

    def _symbols(self, reader: AvroEnum, writer: AvroEnum, path: tuple[str, ...]) -> _Found:
        self._budget.spend((len(writer.symbols) + len(reader.symbols)) // 100)
        missing = sorted(set(writer.symbols).difference(reader.symbols))
        if not missing or reader.default is not None:
            return _NONE
        shown = ", ".join(missing[:100])
        return (
            Incompatibility(
                "MISSING_ENUM_SYMBOLS",
                _pointer((*path, "symbols")),
                f"The {{reader}} schema does not have the enum symbols [{shown}] of the {{writer}} schema at path "
                f"'{_pointer((*path, 'symbols'))}', and no default symbol",
                f"[{shown}]",
            ),
        )


def _pointer(path: tuple[str, ...]) -> str:
    return "/" + "/".join(path)


def _may_match(branch: AvroType, writer: AvroType) -> bool:
    """Return whether a branch of the reader may read a type: names are compared before fields."""
    if isinstance(branch, NamedAvroType) and isinstance(writer, NamedAvroType):
        return branch.kind == writer.kind and not _names(branch, writer, ())
    return True


def _names(reader: NamedAvroType, writer: NamedAvroType, path: tuple[str, ...]) -> _Found:
    if reader.name.simple == writer.name.simple or writer.name.full in reader.name.aliases:
        return _NONE
    pointer = _pointer((*path, "name"))
    return (
        Incompatibility(
            "NAME_MISMATCH",
            pointer,
            f"The name of a type at path '{pointer}' in the {{reader}} schema is neither that in the {{writer}} "
            "schema, nor has it that one as an alias",
            f"expected: {writer.name.full}",
        ),
    )


def _sizes(reader: AvroFixed, writer: AvroFixed, path: tuple[str, ...]) -> _Found:
    if reader.size == writer.size:
        return _NONE
    pointer = _pointer((*path, "size"))
    return (
        Incompatibility(
            "FIXED_SIZE_MISMATCH",
            pointer,
            f"The size of the FIXED type at path '{pointer}' in the {{reader}} schema is not that in the {{writer}} "
            "schema",
            f"expected: {writer.size}, found: {reader.size}",
        ),
    )


def _type_mismatch(reader: AvroType, writer: AvroType, path: tuple[str, ...]) -> Incompatibility:
    return Incompatibility(
        "TYPE_MISMATCH",
        _pointer(path),
        f"The type at path '{_pointer(path)}' in the {{reader}} schema can not read that in the {{writer}} schema",
        f"reader type: {reader.kind.upper()} not compatible with writer type: {writer.kind.upper()}",
    )


def _missing_branch(writer: AvroType, path: tuple[str, ...]) -> Incompatibility:
    return Incompatibility(
        "MISSING_UNION_BRANCH",
        _pointer(path),
        f"The union at path '{_pointer(path)}' in the {{reader}} schema has no type that can read one of the "
        "{writer} schema",
        f"reader union lacking writer type: {writer.kind.upper()}",
    )


def _missing_default(field: AvroField, path: tuple[str, ...]) -> Incompatibility:
    return Incompatibility(
        "READER_FIELD_MISSING_DEFAULT_VALUE",
        _pointer(path),
        f"The field '{field.name}' at path '{_pointer(path)}' in the {{reader}} schema has no default value, and is "
        "missing in the {writer} schema",
        field.name,
    )


def _ambiguous(field: AvroField, names: list[str], path: tuple[str, ...]) -> Incompatibility:
    return Incompatibility(
        "AMBIGUOUS_FIELD",
        _pointer(path),
        f"The field '{field.name}' at path '{_pointer(path)}' in the {{reader}} schema can be several fields of the "
        "{writer} schema, by its name and aliases",
        ", ".join(names[:10]),
    )
