from __future__ import annotations

import json

from click.testing import CliRunner

from kqueue.cli.app import kqueue as main
from kqueue.telemetry.alerts import rules
from kqueue.telemetry.dashboard import dashboard
from kqueue.telemetry.metrics import METRICS


def output(*arguments: str) -> str:
    result = CliRunner().invoke(main, ["metrics", *arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_all_metrics_are_listed() -> None:
    assert [line.split()[0] for line in output("list").splitlines()] == ["METRIC", *(one.name for one in METRICS)]
    assert [one["name"] for one in json.loads(output("list", "-o", "json"))] == [one.name for one in METRICS]


def test_the_dashboard_is_printed_as_json() -> None:
    assert json.loads(output("dashboard")) == dashboard()


def test_the_alerts_are_printed() -> None:
    assert output("alerts") == rules()
