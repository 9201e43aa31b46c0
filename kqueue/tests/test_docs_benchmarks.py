"""The tables of docs/benchmarks.md are those of the kept figures; `python -m benchmarks.page` writes
them.
"""

from __future__ import annotations

from benchmarks.page import DERIVED, PAGE, block, drawings
from kqueue.tests.tables import for_each

TEXT = PAGE.read_text(encoding="utf-8")


@for_each("name", DERIVED)
def test_the_page_has_what_was_kept(name: str) -> None:
    match = block(name).search(TEXT)
    assert match is not None
    assert match[0] == f"{match[1]}{DERIVED[name]()}{match[2]}", "run python -m benchmarks.page"


def test_the_page_shows_every_picture() -> None:
    for path, _ in drawings():
        assert path.is_file()
        assert f"](pictures/{path.name})" in TEXT
