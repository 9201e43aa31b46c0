from __future__ import annotations

import re
from itertools import combinations

from kqueue.telemetry.dashboard import COLUMNS, ROWS, dashboard
from kqueue.tests.telemetry.queries import check_query


def test_every_query_asks_for_metrics_with_labels_that_they_have() -> None:
    for row in ROWS:
        for panel in row.panels:
            for query, legend in panel.queries:
                grouped = check_query(query)
                assert set(re.findall(r"\{\{(\w+)\}\}", legend)) <= grouped, (panel.title, legend)


def test_panels_lie_beside_each_other_and_not_over_each_other() -> None:
    places = [panel["gridPos"] for panel in dashboard()["panels"]]
    for one, other in combinations(places, 2):
        apart_x = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        apart_y = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert apart_x or apart_y, (one, other)
    assert all(place["x"] + place["w"] <= COLUMNS for place in places)


def test_panels_have_numbers_of_their_own_and_the_variables_that_they_use() -> None:
    made = dashboard()
    numbers = [panel["id"] for panel in made["panels"]]
    assert len(set(numbers)) == len(numbers)
    variables = {variable["name"] for variable in made["templating"]["list"]}
    used = {name for panel in made["panels"] for name in re.findall(r"\$\{?(\w+)", str(panel))}
    assert used - {"__rate_interval"} == variables
