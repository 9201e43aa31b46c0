from __future__ import annotations

import pytest

from kqueue.schema_registry.schemas.protobuf.parser import parse_file
from kqueue.schema_registry.schemas.protobuf.symbols import SymbolTable

TABLE = SymbolTable()
TABLE.add(
    parse_file("package p.q; message A { message B { enum C { Z = 0; } } optional group G = 1 {} } enum C { Y = 0; }")
)
TABLE.add(parse_file("package p; message A { message D {} }"))


@pytest.mark.parametrize(
    ("name", "scope", "found"),
    [
        ("B", "p.q.A", "p.q.A.B"),
        ("B.C", "p.q.A", "p.q.A.B.C"),
        ("C", "p.q.A.B", "p.q.A.B.C"),
        ("C", "p.q.A", "p.q.C"),
        ("G", "p.q.A", "p.q.A.G"),
        (".p.A", "p.q.A", "p.A"),
        ("q.C", "p.A", "p.q.C"),
        ("A.D", "p.q", "p.A.D"),
        ("p.q.C", "", "p.q.C"),
        ("X", "p.q.A", None),
        (".A", "p.q", None),
    ],
)
def test_name_is_looked_for_from_the_inner_scope_to_the_outer(name: str, scope: str, found: str | None) -> None:
    symbol = TABLE.find(name, scope)
    assert (None if symbol is None else symbol.name) == found
    assert TABLE.full_name(name, scope) == (name if found is None else f".{found}")


def test_local_name_is_without_the_package() -> None:
    symbol = TABLE.find("p.q.A.B", "")
    assert symbol is not None
    assert symbol.local_name == "A.B"
