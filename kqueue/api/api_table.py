"""Every API of the protocol: from which version this kqueue serves it, or why not.

Derived from the handlers (`api.handler_table`), the messages (`wire.apis`) and the reasons below.
`docs/apis.md` holds this table and a test compares them; ``python -m kqueue.api.api_table`` writes
it there.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from kqueue.api import handler_table
from kqueue.api.version_profiles import KAFKA, WITH_RECEIVER
from kqueue.wire.apis import ALL

KAFKA_4 = 2
"""The column of Kafka 4.3 in `KAFKA`."""
HEAD = ("Key", "API", "kqueue", "Kafka 4.3", "Note")
NONE = "-"
PAGE = Path(__file__).parents[2] / "docs" / "apis.md"
TABLE = re.compile(r"^\| Key \| API \|(?:.*\n\|)*.*", re.MULTILINE)

WITHOUT_MESSAGES = {
    56: "AlterPartition",
    80: "AddRaftVoter",
    81: "RemoveRaftVoter",
}
"""APIs of the protocol that `wire.apis` does not declare, because nothing uses them."""

BROKERS = "between brokers and controllers"
REASONS = {
    **dict.fromkeys(("AlterPartition", "AddRaftVoter", "RemoveRaftVoter"), BROKERS),
}
"""Why an API is not served, by its name."""


CONDITIONS = dict.fromkeys(
    WITH_RECEIVER, "served where `kqueue.client.metrics` names a receiver, or metrics are pushed"
)
"""When an API with a handler is served, if not always."""


class ApiRow(NamedTuple):
    """One API. `served`, `kafka`: lowest and highest version here and in Kafka 4.3; None: none.

    `reason`: why it is not served, or when; "" if always.
    """

    key: int
    name: str
    served: tuple[int, int] | None
    kafka: tuple[int, int] | None
    reason: str

    def cells(self) -> tuple[str, str, str, str, str]:
        """Return the row as text, in the order of `HEAD`."""
        return str(self.key), self.name, versions_text(self.served), versions_text(self.kafka), self.reason


def api_rows() -> list[ApiRow]:
    """Return a row for each API of the protocol that clients, tools or brokers send, by key."""
    served = {row.api.name: row.versions for row in handler_table.all_handlers()}
    names = {api.key: api.name for api in ALL} | WITHOUT_MESSAGES
    return [
        ApiRow(
            key, name, served.get(name), _kafkas(name), CONDITIONS.get(name, "") if name in served else REASONS[name]
        )
        for key, name in sorted(names.items())
    ]


def markdown() -> str:
    """Return the table as Markdown."""
    rows = [HEAD, tuple("---" for _ in HEAD), *(row.cells() for row in api_rows())]
    return "\n".join(f"| {' | '.join(cells)} |".replace("|  |", "| |") for cells in rows)


def versions_text(versions: tuple[int, int] | None) -> str:
    """Return ``0-13``, ``0``, or ``-``."""
    if versions is None:
        return NONE
    low, high = versions
    return str(low) if low == high else f"{low}-{high}"


def _kafkas(name: str) -> tuple[int, int] | None:
    columns = (KAFKA | WITH_RECEIVER).get(name)
    return columns[KAFKA_4] if columns is not None else None


def replace_table(text: str) -> str:
    """Return a Markdown text with the table of APIs that it has replaced by the one of now."""
    return TABLE.sub(lambda _: markdown(), text)


if __name__ == "__main__":
    PAGE.write_text(replace_table(PAGE.read_text()))
