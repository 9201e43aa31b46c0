from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kqueue.storage.paths import check_path, parent_of
from kqueue.tests.tables import for_each


@for_each("path", ["", "a", "a/b", "orders-0/00000000000000000000.log", "..a", "a..", "...", "-", ".lock"])
def test_names_under_the_root_are_taken_as_they_are(path: str) -> None:
    assert check_path(path) == path


@for_each("path", ["..", "a/..", "../a", "/", "/a", "a/", "a//b", "./a", "a\\b", "\0", "a/b\0"])
def test_paths_that_could_leave_the_root_are_refused(path: str) -> None:
    with pytest.raises(ValueError, match="no path under"):
        check_path(path)


@given(st.text(alphabet="a./\\\0", max_size=8))
def test_no_path_that_passes_climbs(path: str) -> None:
    try:
        check_path(path)
    except ValueError:
        return
    assert ".." not in path.split("/")
    assert not path.startswith("/")


@for_each("path, parent", [("a/b/c", "a/b"), ("a", ""), ("a/b", "a")])
def test_the_parent_is_the_folder_that_holds_the_name(path: str, parent: str) -> None:
    assert parent_of(path) == parent
