from __future__ import annotations

import pytest

from kqueue.schema_registry.schemas import InvalidSchema
from kqueue.schema_registry.schemas.limits import DEPTH_MAX

imports = pytest.importorskip("kqueue.schema_registry.schemas.protobuf.imports")


def imported(text: str, **references: str) -> list[str]:
    return list(
        imports.imported_files(imports.read_file(text), {f"{name}.proto": one for name, one in references.items()})
    )


def test_files_come_after_those_that_they_import() -> None:
    both = 'import "a.proto"; import public "b.proto";'
    assert imported(both, a='import "c.proto";', b='import "c.proto";', c="") == ["c.proto", "a.proto", "b.proto"]


@pytest.mark.parametrize(
    "path", ["google/protobuf/struct.proto", "confluent/meta.proto", "confluent/type/decimal.proto"]
)
def test_files_of_every_registry_need_no_reference(path: str) -> None:
    assert path in imported(f'import "{path}";')


def test_reference_comes_before_a_built_in_file() -> None:
    files = imports.imported_files(
        imports.read_file('import "confluent/meta.proto";'), {"confluent/meta.proto": "message Own {}"}
    )
    assert files["confluent/meta.proto"].messages[0].name == "Own"


@pytest.mark.parametrize(
    ("references", "message"),
    [
        ({}, "imports 'a.proto', which is not among its references"),
        ({"a": "message"}, "The reference a.proto: .*line 1"),
        ({"a": 'import "b.proto";', "b": 'import "a.proto";'}, "in a circle"),
        ({"a": 'import "../../etc/passwd";'}, "not among its references"),
    ],
)
def test_imports_that_can_not_be_followed_are_refused(references: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidSchema, match=message):
        imported('import "a.proto";', **references)


def test_depth_of_imports_is_bounded() -> None:
    chain = {f"f{number}": f'import "f{number + 1}.proto";' for number in range(DEPTH_MAX + 2)}
    with pytest.raises(InvalidSchema, match="deep"):
        imported('import "f0.proto";', **chain)
