from __future__ import annotations

import pytest

from kqueue.schema_registry.schemas import (
    Incompatibility,
    InvalidSchema,
    ResolvedReference,
    check_compatibility,
    limits,
    schema_type,
)
from kqueue.schema_registry.schemas.limits import INCOMPATIBILITIES_MAX
from kqueue.tests.schema_registry.schemas.avro.cases import (
    CASES,
    AvroCase,
    array,
    enum,
    field,
    fixed,
    record,
    text,
)

pytest.importorskip("fastavro")
AVRO = schema_type("AVRO")


def reasons(new: object, old: object) -> list[Incompatibility]:
    return AVRO.parse(text(new), []).incompatibilities(AVRO.parse(text(old), []))


@pytest.mark.parametrize("case", CASES, ids=[case.about for case in CASES])
def test_schemas_of_the_table_are_compatible_as_it_says(case: AvroCase) -> None:
    old, new = AVRO.parse(text(case.old), []), AVRO.parse(text(case.new), [])
    verdicts = {level: not check_compatibility(level, new, [old]) for level in ("NONE", "BACKWARD", "FORWARD", "FULL")}
    assert verdicts == {
        "NONE": True, "BACKWARD": case.backward, "FORWARD": case.forward, "FULL": case.backward and case.forward,
    }  # fmt: skip


def test_table_has_enough_cases() -> None:
    assert len(CASES) >= 40


@pytest.mark.parametrize(
    ("new", "old", "kind", "path", "detail"),
    [
        (record(field("f1", "string")), record(), "READER_FIELD_MISSING_DEFAULT_VALUE", "/fields/0", "f1"),
        (
            record(field("a", array("int"))),
            record(field("a", array("string"))),
            "TYPE_MISMATCH",
            "/fields/0/type/items",
            "reader type: INT not compatible with writer type: STRING",
        ),
        (record(name="a.R"), record(name="b.S"), "NAME_MISMATCH", "/name", "expected: b.S"),
        (fixed(8), fixed(4), "FIXED_SIZE_MISMATCH", "/size", "expected: 4, found: 8"),
        (enum("A"), enum("C", "B", "A"), "MISSING_ENUM_SYMBOLS", "/symbols", "[B, C]"),
        (["int"], ["int", "string"], "MISSING_UNION_BRANCH", "/1", "reader union lacking writer type: STRING"),
    ],
)
def test_each_kind_of_incompatibility_has_its_path_and_detail(
    new: object, old: object, kind: str, path: str, detail: str
) -> None:
    (reason,) = reasons(new, old)
    assert (reason.kind, reason.path, reason.detail) == (kind, path, detail)
    shown = reason.text("new", "old")
    assert shown.startswith(f"{{errorType:'{kind}', description:'")
    assert shown.endswith(f", additionalInfo:'{detail}'}}")
    assert path in shown


def test_reasons_of_a_record_used_twice_are_reported_once() -> None:
    def outer(inner: object) -> object:
        return record(field("a", inner), field("b", "Inner"), name="Outer")

    new = outer(record(field("x", "int"), name="Inner"))
    assert len(reasons(new, outer(record(name="Inner")))) == 1


def test_number_of_reasons_is_bounded() -> None:
    many = record(*(field(f"f{number}", "int") for number in range(2 * INCOMPATIBILITIES_MAX)))
    assert len(reasons(many, record())) == INCOMPATIBILITIES_MAX


def test_fields_of_too_many_types_end_as_incompatible(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "COMPARISON_STEPS_MAX", 100)
    many = record(*(field(f"f{number}", array("int")) for number in range(60)))
    (reason,) = reasons(many, many)
    assert reason.kind == "TOO_LARGE"


def test_records_in_a_long_chain_are_refused_or_end_as_incompatible() -> None:
    chain: list[object] = [record(field("f", "int"), name="R0")]
    chain += [record(field("f", f"R{number - 1}"), name=f"R{number}") for number in range(1, 1_000)]
    others = [ResolvedReference("chain", "s", 1, text(chain))]
    with pytest.raises(InvalidSchema, match="nested too deeply"):
        AVRO.parse("R999", others)
    stored = AVRO.parse("R999", others, is_new=False)
    (reason,) = stored.incompatibilities(AVRO.parse("R999", others, is_new=False))
    assert reason.kind == "TOO_LARGE"


def test_records_that_refer_to_each_other_in_all_ways_are_compared_quickly() -> None:
    names = [f"R{number}" for number in range(60)]
    chain: list[object] = []
    for index, name in enumerate(names):
        chain.append(record(*(field(f"f{other}", other) for other in names[:index]), name=name))
    assert reasons(chain, chain) == []
