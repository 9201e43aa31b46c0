from __future__ import annotations

from collections import Counter

from kqueue.schema_registry.schemas.limits import ComparisonBudget
from kqueue.schema_registry.schemas.pair_memo import PairMemo


class Graph:
    """Nodes compared with themselves: one is incompatible if it is bad, or one below it is."""

    def __init__(self, edges: dict[str, str], bad: str = "") -> None:
        self.nodes = {name: object() for name in edges}
        self.edges = edges
        self.bad = bad
        self.computed: Counter[str] = Counter()
        self.memo: PairMemo[str] = PairMemo(ComparisonBudget())

    def compare(self, name: str) -> tuple[str, ...]:
        return self.memo.result(self.nodes[name], self.nodes[name], lambda: self._compute(name))

    def _compute(self, name: str) -> tuple[str, ...]:
        self.computed[name] += 1
        found = [reason for below in self.edges[name] for reason in self.compare(below)]
        return tuple(found) + ((name,) if name in self.bad else ())


def test_each_pair_is_compared_once() -> None:
    graph = Graph({"a": "bc", "b": "d", "c": "d", "d": ""})
    assert graph.compare("a") == ()
    assert set(graph.computed.values()) == {1}


def test_pair_within_itself_adds_no_reason() -> None:
    assert Graph({"a": "ab", "b": "a"}).compare("a") == ()
    assert Graph({"a": "ab", "b": "a"}, bad="b").compare("a") == ("b",)


def test_result_that_relied_on_an_incompatible_pair_is_computed_again() -> None:
    graph = Graph({"a": "bc", "b": "a", "c": ""}, bad="c")
    assert graph.compare("a") == ("c",)
    assert graph.compare("b") == ("c",)
    assert graph.computed["b"] == 2


def test_result_that_relied_on_a_compatible_pair_is_kept() -> None:
    graph = Graph({"a": "b", "b": "c", "c": "ab"})
    assert graph.compare("a") == graph.compare("b") == graph.compare("c") == ()
    assert set(graph.computed.values()) == {1}


def test_forgotten_result_is_forgotten_through_inner_circles_too() -> None:
    graph = Graph({"r": "ax", "a": "b", "b": "ar", "x": ""}, bad="x")
    assert graph.compare("r") == ("x",)
    assert graph.compare("b") == ("x",)
    assert graph.compare("a") == ("x",)
