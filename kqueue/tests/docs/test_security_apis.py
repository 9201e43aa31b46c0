"""The table of `docs/security-apis.md` is that of the rules of the handler modules.

`python -m kqueue.tests.docs.test_security_apis` writes it.
"""

from __future__ import annotations

from pathlib import Path

from kqueue.api import handler_table
from kqueue.api.access import Applies, Rule
from kqueue.security.operations import ResourceType

PAGE = Path(__file__).parents[3] / "docs" / "security-apis.md"
BEGIN, END = "<!-- table of the rules -->\n", "<!-- end of the table -->\n"
RESOURCES = {
    ResourceType.TOPIC: "topic",
    ResourceType.GROUP: "group",
    ResourceType.CLUSTER: "cluster",
    ResourceType.TRANSACTIONAL_ID: "transactional id",
    ResourceType.DELEGATION_TOKEN: "delegation token",
    ResourceType.USER: "user",
}


def line(name: str, rule: Rule) -> str:
    applies = "the request" if rule.applies is Applies.WHOLE else f"each {RESOURCES[rule.resource_type]}"
    if rule.resource_type is ResourceType.CLUSTER and rule.applies is Applies.EACH:
        applies = "a part"
    return f"| {name} | {rule.operation.name} | {RESOURCES[rule.resource_type]} | {applies} | {rule.note} |\n"


def table() -> str:
    """Return the table, one row for each rule, in the order of the API keys."""
    rows = ["| API | operation | of | denies | when, and what else allows it |\n", "|---|---|---|---|---|\n"]
    for row in handler_table.all_handlers():
        name = f"{row.api.name} ({row.api.key})"
        if not row.access:
            rows.append(f"| {name} | none | | | every client may use it |\n")
        for rule in row.access or ():
            rows.append(line(name, rule))
            name = ""
    return "".join(rows)


def test_the_table_is_that_of_the_handlers() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert text.partition(BEGIN)[2].partition(END)[0] == table()


if __name__ == "__main__":
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    PAGE.write_text(before + BEGIN + table() + END + rest.partition(END)[2], encoding="utf-8")
