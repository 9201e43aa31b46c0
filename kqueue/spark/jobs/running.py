"""What jobs that take long have in common: how they tell how far they are, and how they wait."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery

TURN_S = 1
Tell = Callable[[str, int], None]


def silent(stage: str, rows: int) -> None:
    """Tells nobody."""


def await_end(query: StreamingQuery) -> None:
    """Wait for a query that ends by itself, in turns: Ctrl-C is heard in between. Raises: what made it fail."""
    while not query.awaitTermination(TURN_S):
        pass
