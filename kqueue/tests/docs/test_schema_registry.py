"""docs/schema-registry.md: its tables are those of the code.

`python -m kqueue.tests.docs.test_schema_registry` writes them.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from kqueue.schema_registry import errors
from kqueue.schema_registry.errors import ErrorKind
from kqueue.schema_registry.limits import DEFAULT_LIMITS
from kqueue.schema_registry.modes import MODES
from kqueue.schema_registry.rest.app import ENDPOINTS
from kqueue.schema_registry.rest.media_types import TAKEN
from kqueue.tests.doc_pages import Page
from kqueue.tests.source_tree import ROOT
from kqueue.tests.tables import for_each

PAGE = Page("docs/schema-registry.md")
FIELD = re.compile(r"{(\w+)[^}]*}")


def table_of_endpoints() -> str:
    """Return a row for each endpoint: request, answer, parameters."""
    rows = ["| request | answer | parameters |", "|---|---|---|"]
    for endpoint in ENDPOINTS:
        parameters = ", ".join(f"`{name}`" for name in endpoint.parameters)
        rows.append(f"| `{endpoint.method} {endpoint.path}` | {endpoint.meaning} | {parameters} |")
    return "\n".join(rows)


def shown_field(match: re.Match[str]) -> str:
    return f"*{match[1]}*"


def table_of_errors() -> str:
    """Return a row for each error. Fields of sentences are in italics."""
    kinds = sorted(kind for kind in vars(errors).values() if isinstance(kind, ErrorKind))
    rows = (f"| {kind.code} | {kind.status} | {FIELD.sub(shown_field, kind.sentence)} |" for kind in kinds)
    return "\n".join(["| number | status | sentence |", "|---|---|---|", *rows])


DERIVED: dict[str, Callable[[], str]] = {"endpoints": table_of_endpoints, "errors": table_of_errors}


def block(name: str) -> re.Pattern[str]:
    return re.compile(rf"(<!-- {name}: derived -->\n\n)(.*?)\n?<!-- end -->", re.DOTALL)


@for_each("name", DERIVED)
def test_the_page_has_what_the_code_says(name: str) -> None:
    match = block(name).search(PAGE.text)
    assert match is not None
    assert match[2] == DERIVED[name]() + "\n", "run python -m kqueue.tests.docs.test_schema_registry"


def test_limits_types_and_modes_are_those_of_the_code() -> None:
    for limit in (
        f"{DEFAULT_LIMITS.body_bytes_max:,} bytes",
        f"{DEFAULT_LIMITS.schema_characters_max:,} characters",
        f"{DEFAULT_LIMITS.references_max}, and {DEFAULT_LIMITS.resolved_references_max:,} with",
        f"{DEFAULT_LIMITS.reference_depth_max} deep",
        f"{DEFAULT_LIMITS.stored_bytes_max:,} bytes",
        f"{DEFAULT_LIMITS.names_listed_max:,} names, or {DEFAULT_LIMITS.schemas_listed_max:,} schemas",
        f"{DEFAULT_LIMITS.subject_characters_max:,} characters, without",
    ):
        assert limit in PAGE.text
    assert re.findall(r"^\| `([A-Z_]+)` \|", PAGE.text, re.MULTILINE) == list(MODES)
    assert all(f"`{name}`" in PAGE.text for name in TAKEN)


if __name__ == "__main__":
    text = PAGE.text
    for name, derive in DERIVED.items():
        text = block(name).sub(lambda match, derive=derive: f"{match[1]}{derive()}\n\n<!-- end -->", text)
    (ROOT / PAGE.name).write_text(text, encoding="utf-8")
