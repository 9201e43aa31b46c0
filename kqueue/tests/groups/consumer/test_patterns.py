from __future__ import annotations

import sys

import pytest

from kqueue.base.sliced_task import run_to_end
from kqueue.groups.consumer.patterns import compile_pattern, matching_topics
from kqueue.groups.errors import InvalidRegularExpression


@pytest.fixture(params=["with RE2", "without"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "without":
        monkeypatch.setitem(sys.modules, "re2", None)
    else:
        pytest.importorskip("re2")


@pytest.mark.usefixtures("engine")
def test_whole_names_match() -> None:
    assert run_to_end(matching_topics("t.*", ["t", "tea", "at", "u"])) == {"t", "tea"}
    assert run_to_end(matching_topics("a|b.", [f"b{number}" for number in range(200)])) == {f"b{n}" for n in range(10)}


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("pattern", ["[", "(", "a{2,1}", "*", r"(a)\1", "x" * 1001, "(?=a)"])
def test_a_pattern_that_is_none_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidRegularExpression):
        compile_pattern(pattern)


@pytest.mark.usefixtures("engine")
def test_posix_classes_match() -> None:
    names = ["topic-1", "topic-12", "topic-x"]
    assert run_to_end(matching_topics("^topic-[[:digit:]]+", names)) == {"topic-1", "topic-12"}
    with pytest.raises(InvalidRegularExpression):
        compile_pattern("[[:number:]]")


def test_a_pattern_beyond_the_subset_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "re2", None)
    with pytest.raises(InvalidRegularExpression, match=r"subset of RE2 only: pip install .*re2"):
        compile_pattern(r"\pL+")


@pytest.mark.usefixtures("engine")
def test_no_pattern_takes_long() -> None:
    """With backtracking this would take longer than the universe has existed."""
    matches = compile_pattern("(a+)+$")
    assert not matches("a" * 249 + "b")
