"""docs/schema-registry.md: its tables are those of the code.

`python -m kqueue.tests.docs.test_schema_registry` writes them.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from kqueue.cli.schema_registry import schema_registry
from kqueue.cli.serve import serve
from kqueue.schema_registry import errors
from kqueue.schema_registry.access.basic_authentication import LOGIN_KEPT_S
from kqueue.schema_registry.access.broker_acls import REFRESH_S
from kqueue.schema_registry.access.topic_authorizer import ON_CLUSTER, ON_TOPIC
from kqueue.schema_registry.election.election_member import TIMES
from kqueue.schema_registry.election.settled_leadership import WAIT_S
from kqueue.schema_registry.errors import ErrorKind
from kqueue.schema_registry.limits import DEFAULT_LIMITS
from kqueue.schema_registry.metrics import MEANINGS
from kqueue.schema_registry.modes import MODES
from kqueue.schema_registry.options import RegistryOptions, client_options
from kqueue.schema_registry.rest.app import ENDPOINTS
from kqueue.schema_registry.rest.contract import Operation
from kqueue.schema_registry.rest.media_types import TAKEN
from kqueue.tests.doc_pages import Page, run_program
from kqueue.tests.source_tree import ROOT
from kqueue.tests.tables import for_each
from kqueue.web.failure_limit import FAILURES_MAX, FAILURES_WINDOW_S

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


def table_of_acls() -> str:
    """Return a row for each operation: Kafka's on the topic, and on the cluster."""
    rows = [
        f"| {operation.value} | {ON_TOPIC[operation].name} | {ON_CLUSTER[operation].name} |" for operation in Operation
    ]
    head = "| request | operation on the topic | about no subject: on the cluster |"
    return "\n".join([head, "|---|---|---|", *rows])


def table_of_metrics() -> str:
    """Return a row for each metric."""
    rows = (f"| `{name}` | {text} |" for name, text in MEANINGS.items())
    return "\n".join(["| name | meaning |", "|---|---|", *rows])


DERIVED: dict[str, Callable[[], str]] = {
    "endpoints": table_of_endpoints,
    "errors": table_of_errors,
    "acls": table_of_acls,
    "metrics": table_of_metrics,
}


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


@for_each("command", [line for line in PAGE.commands() if line.startswith("kqueue schema-registry")])
def test_the_commands_are_accepted(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "client.properties").write_text("security.protocol=PLAINTEXT\n")
    given = schema_registry.make_context("kqueue schema-registry", shlex.split(command)[2:]).params
    names = ("bootstrap", "group", "follower", "while_stdin_is_open")
    options = {name: value for name, value in given.items() if name not in names}
    RegistryOptions(client=client_options(given["bootstrap"]), is_eligible=not given["follower"], **options)


def test_the_options_of_serve_are_those_of_the_command() -> None:
    options = {option for parameter in serve.params for option in parameter.opts}
    lines = [line for line in PAGE.commands() if line.startswith("kqueue serve")]
    assert {word for line in lines for word in line.split() if word.startswith("--")} <= options


def test_the_program_of_the_page_runs(tmp_path: Path) -> None:
    [program] = PAGE.blocks("python")
    assert run_program(program, tmp_path) == "{'id': 1}\n"


def test_numbers_of_logins_and_elections_are_those_of_the_code() -> None:
    for text in (
        f"holds for {LOGIN_KEPT_S:g} seconds",
        f"After {FAILURES_MAX} failed logins within {FAILURES_WINDOW_S:g} seconds",
        f"read every {REFRESH_S:g} seconds",
        "after ten seconds (its session)",
        "waits for up to five seconds",
    ):
        assert text in " ".join(PAGE.text.split())
    assert (TIMES.session_ms, WAIT_S) == (10_000, 5.0)


if __name__ == "__main__":
    text = PAGE.text
    for name, derive in DERIVED.items():
        text = block(name).sub(lambda match, derive=derive: f"{match[1]}{derive()}\n\n<!-- end -->", text)
    (ROOT / PAGE.name).write_text(text, encoding="utf-8")
