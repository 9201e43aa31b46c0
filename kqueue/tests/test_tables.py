from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kqueue.tests.tables import for_each


def test_each_row_runs_with_each_of_another_table() -> None:
    runs = []

    @for_each("left", [1, 2])
    @for_each("right, word", [(3, "a"), (4, "b")])
    def test(left: int, right: int, word: str) -> None:
        runs.append((left, right, word))

    test()
    assert runs == [(1, 3, "a"), (1, 4, "b"), (2, 3, "a"), (2, 4, "b")]


def test_all_rows_that_fail_are_reported() -> None:
    @for_each("value", range(4))
    def test(value: int) -> None:
        with pytest.raises(ValueError, match="odd"):
            raise ValueError(("even", "odd")[value % 2])

    with pytest.raises(BaseExceptionGroup, match="2 of 4 rows failed") as caught:
        test()
    assert [error.__notes__ for error in caught.value.exceptions] == [["value = 0"], ["value = 2"]]


def test_rows_of_two_tables_that_fail_name_both() -> None:
    @for_each("left", "ab")
    @for_each("right", "cd")
    def test(left: str, right: str) -> None:
        pytest.fail(left + right)

    with pytest.raises(BaseExceptionGroup, match="2 of 2 rows failed") as caught:
        test()
    assert [error.__notes__ for error in caught.value.exceptions] == [["left = 'a'"], ["left = 'b'"]]
    (first, second), _ = (error.exceptions for error in caught.value.exceptions)
    assert (first.__notes__, second.__notes__) == (["right = 'c'"], ["right = 'd'"])


def test_a_single_failure_is_itself_and_names_its_row() -> None:
    @for_each("value", [1, 2])
    def test(value: int) -> None:
        if value == 2:
            pytest.fail("no")

    with pytest.raises(pytest.fail.Exception, match="no") as caught:
        test()
    assert caught.value.__notes__ == ["value = 2"]


def test_a_skip_ends_the_test() -> None:
    @for_each("value", [1, 2])
    def test(value: int) -> None:
        pytest.skip("not here")

    with pytest.raises(pytest.skip.Exception):
        test()


def test_a_table_without_rows_or_with_marks_is_refused() -> None:
    with pytest.raises(AssertionError, match="no rows of value"):
        for_each("value", [])
    for names, row in (("value", pytest.param(1)), ("left, right", pytest.param(1, 2))):
        with pytest.raises(AssertionError, match="rows have no marks"):
            for_each(names, [row])


@for_each("least", [0, 5])
@given(value=st.integers(0, 9))
def test_properties_get_rows_and_fixtures(least: int, value: int, request: pytest.FixtureRequest) -> None:
    assert value + least >= least
    assert request.node.name == "test_properties_get_rows_and_fixtures"
