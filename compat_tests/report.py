"""A pytest plugin: `--report FILE` writes what clients do here as JSON, by client, backend and
feature.

A feature is a constant of `clients/adapters/contract.py`. A test names those that it needs with the
fixture `needs`. Tests that name none count as `BASICS`: what every client offers.

With `--report` the run is compared with the report card too, and fails if a case fails that passed
there, or is not offered any more by the same version.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from compat_tests import report_card
from compat_tests.clients import adapters
from compat_tests.clients.adapters import contract
from compat_tests.clients.brokers import CLUSTER, DISK, MEMORY

FEATURE, CASE = "feature", "case"
BASICS = "produce, consume, groups, administration"
FEATURES = (
    BASICS,
    *(value for name, value in vars(contract).items() if name.isupper() and isinstance(value, str)),
)
SECURED, KAFKA = "secured", "Apache Kafka 4.3"
BACKENDS = (MEMORY, DISK, CLUSTER, SECURED, KAFKA)
"""A broker in memory, on disk, three of them, one with TLS, SCRAM and ACLs; and Kafka."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--report", metavar="FILE", type=Path, help="write what the clients do to a file")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("report") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Report(config), "report")


def backend_of(storage: str | None, *, secured: bool, external: bool, cluster: bool) -> str | None:
    """Return the backend of a case; None: it is a case of another kind of run.

    Args:
        storage: the parameter of its test; None: it has none, and makes a broker in memory, of
            which only runs on single brokers tell.
        secured: whether its broker serves authenticated clients only.
        external: whether the run is against a broker that it did not start.
        cluster: whether the run is on a cluster.
    """
    if external:
        return KAFKA
    if secured:
        return SECURED
    return None if storage is None and cluster else storage or MEMORY


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Note client and backend of each case, for the process that collects the outcomes."""
    parameters = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    if "client" not in parameters:
        return  # it is about the broker alone
    backend = backend_of(
        parameters.get("storage"),
        secured=item.config.getoption("secure") or "secured" in getattr(item, "fixturenames", ()),
        external=item.config.getoption("bootstrap") is not None,
        cluster=item.config.getoption("cluster"),
    )
    if backend is not None:
        item.user_properties.append((CASE, [parameters["client"], backend]))


class Report:
    """Collects the outcomes of all tests, those of pytest-xdist's workers too."""

    def __init__(self, config: pytest.Config) -> None:
        self._file: Path = config.getoption("report")
        self._counts: dict[tuple[str, str], dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
        self._worse: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        properties = report.user_properties
        cases = [value for name, value in properties if name == CASE]
        features = [str(value) for name, value in properties if name == FEATURE] or [BASICS]
        outcome = "failed" if report.failed else "passed" if report.passed and report.when == "call" else None
        if outcome is None or not cases or not isinstance(cases[0], list):
            return
        client, backend = cases[0]
        for feature in features:
            self._counts[client, backend][feature][outcome] += 1

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        runs = [self._run(client, backend) for client, backend in sorted(self._counts)]
        self._file.write_text(report_card.as_json(runs), encoding="utf-8")
        self._worse = report_card.worse(report_card.load(), runs)
        if self._worse and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for line in self._worse:
            terminalreporter.write_line(f"worse than on the report card: {line}", red=True)

    def _run(self, client: str, backend: str) -> report_card.Run:
        adapter = adapters.load(client)
        counts = self._counts[client, backend]
        return report_card.Run(
            client=client,
            version=adapter.version,
            python=".".join(map(str, sys.version_info[:2])),
            backend=backend,
            missing=tuple(feature for feature in FEATURES[1:] if feature not in adapter.features),
            counts={
                feature: (counts[feature]["passed"], counts[feature]["failed"])
                for feature in FEATURES
                if feature in counts
            },
        )
