"""Runs a test over the rows of a table, as one test.

`pytest.mark.parametrize` makes a test of each row, which costs more than most rows take: five
milliseconds of collection, fixtures and reports in each worker. It is for rows that need fixtures
of their own, take long, or are to be selected by name.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any

import pytest
from _pytest.mark import ParameterSet

Test = Callable[..., None]
TEXT_MAX = 300
"""So many characters of a row are shown."""


def for_each(names: str, rows: Iterable[Any]) -> Callable[[Test], Test]:
    """Return a decorator that runs a test with each row, and reports all rows that fail.

    Args:
        names: the test's arguments that a row has, with commas between them.
        rows: a value each where there is one name, else a tuple.
    """
    arguments = [name.strip() for name in names.split(",")]
    table = [row if len(arguments) > 1 else (row,) for row in rows]
    assert table, f"no rows of {names}"
    assert not any(isinstance(row, ParameterSet) for row in chain(table, *table)), "rows have no marks"

    def decorate(test: Test) -> Test:
        @functools.wraps(test)
        def run(**others: Any) -> None:
            __tracebackhide__ = True
            failures = []
            for row in table:
                try:
                    test(**others, **dict(zip(arguments, row, strict=True)))
                except (Exception, BaseExceptionGroup, pytest.fail.Exception) as error:
                    error.add_note(f"{names} = {', '.join(map(repr, row))}"[:TEXT_MAX])
                    failures.append(error)
            if len(failures) == 1:
                raise failures[0]
            if failures:
                raise BaseExceptionGroup(f"{len(failures)} of {len(table)} rows failed", failures)

        signature = inspect.signature(test)
        left = [parameter for name, parameter in signature.parameters.items() if name not in arguments]
        run.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        return run

    return decorate
