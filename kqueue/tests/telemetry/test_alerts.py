from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from kqueue.cli.app import COMMANDS
from kqueue.telemetry.alerts import ALERTS, PAGE, TICKET, rules
from kqueue.tests.telemetry.queries import check_query


def test_every_condition_asks_for_metrics_with_labels_that_they_have() -> None:
    for alert in ALERTS:
        labels = check_query(alert.condition)
        assert set(re.findall(r"\$labels\.(\w+)", alert.meaning)) <= labels, alert.name
        assert alert.severity in (PAGE, TICKET)
        assert re.fullmatch(r"\d+m", alert.lasts)


def test_every_remedy_names_commands_and_settings_that_exist() -> None:
    for alert in ALERTS:
        for command in re.findall(r"kqueue ([a-z-]+) ", alert.remedy):
            assert command in COMMANDS, alert.name


def test_prometheus_accepts_the_rules(tmp_path: Path) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("needs promtool, of the package prometheus")
    (tmp_path / "alerts.yml").write_text(rules())
    subprocess.run([promtool, "check", "rules", tmp_path / "alerts.yml"], check=True, capture_output=True)
