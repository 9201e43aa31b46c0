"""The part of a long test that the default tests run.

They run a seventh of the examples that a property asks for, the corners of a grid, and a part of
many steps. The rest has the mark `thorough`, which `tox -m thorough` selects. `KQUEUE_EXAMPLES` is
the factor for examples: `KQUEUE_EXAMPLES=4 tox -e unit -- -m hypothesis` runs four times as many as
they ask for.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import pytest

FACTOR = float(os.environ.get("KQUEUE_EXAMPLES", "0.15"))
EXAMPLES_MIN = 5
"""Fewer would leave out even the corners that Hypothesis tries first."""


def examples(thorough: int, least: int = EXAMPLES_MIN) -> int:
    """Return how many examples a property runs now that asks for `thorough`.

    Args:
        least: fewer are never run, where that many are asked for.
    """
    return max(min(least, thorough), round(thorough * FACTOR))


def corners(values: Iterable[Any], *kept: Any) -> list[Any]:
    """Return the arguments of `parametrize`: all but `kept` are left to the thorough tests.

    Args:
        kept: values that the default tests run; none: the first value.
    """
    rows = list(values)
    stay = kept or rows[:1]
    missing = [value for value in stay if value not in rows]
    assert not missing, f"not among the arguments: {missing}"
    return [row if row in stay else _thorough(row) for row in rows]


def _thorough(row: Any) -> Any:
    arguments = row if isinstance(row, tuple) else (row,)
    return pytest.param(*arguments, marks=pytest.mark.thorough)


def parts(count: int) -> pytest.MarkDecorator:
    """Parametrize `part`, a slice that takes every `count`-th of many steps or cases. The default
    tests run the first part.
    """
    return pytest.mark.parametrize("part", corners([slice(first, None, count) for first in range(count)]))
