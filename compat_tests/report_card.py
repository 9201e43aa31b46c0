"""The report card: what each version of each client does with each backend, as runs have shown.

`python -m compat_tests.report_card FILE...` takes over what `pytest --report` wrote, and what
`pytest --call-report` wrote, and writes `docs/report-card.md` and a table of `docs/clients.md`. A
run replaces the cells of its client, version and backend that it has. `report_card_run` makes such
files.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from compat_tests.call_report import CALLS, CLIENT, LANGUAGE, MADE, SAME

ROOT = Path(__file__).parents[1]
KEPT = Path(__file__).parent / "report_card.json"
PAGE = ROOT / "docs" / "report-card.md"
DOCUMENT = ROOT / "docs" / "clients.md"
CALL_TABLE = "calls"
CALL_HEAD = ("language", "client", "calls", "with Kafka's result")
NOT_RUN, NOT_OFFERED = "not run", "-"
HEAD = """\
# Report card

Derived from runs: `python -m compat_tests.report_card_run` makes the runs, keeps them in
[`compat_tests/report_card.json`](../compat_tests/report_card.json), and writes this page.

What each version of each client in Python does with each backend of kqueue, and with Apache Kafka 4.3 itself: the same
[cases](../compat_tests/clients/README.md), over real sockets. *Secured* is a broker with TLS, SCRAM and ACLs, for
authenticated clients only; *cluster* is three brokers with three replicas. The clients of Java, Go, JavaScript and Rust
make every call of theirs, and are compared with Kafka call by call: [Clients](clients.md#clients-of-other-languages).

- A number counts the cases that passed. **Bold**: so many failed.
- `-`: the client does not offer the feature; the number in parentheses is that of the [note](#notes).
- `not run`: the backend was not run with this version. Empty: no case of the feature was in the run. Runs in memory
  leave to those on disk what the storage matters little for; where a secured run has the features of security only, the
  others were not run so with this version; on Kafka the cases that restart their broker or need other users are left
  out.

`tox -e clients` and `tox -m cluster`, which run before every change goes in, compare themselves with this page: a case
that passed here and fails there, or is not offered any more by the same version, fails the run. `tox -m kafka` has
Kafka's answers to what is not in these cases.
"""


@dataclass(frozen=True)
class Run:
    """What a version of a client did on a backend.

    Attributes:
        missing: features that the client does not offer.
        counts: cases that passed and failed, by feature; those without a case are left out.
    """

    client: str
    version: str
    python: str
    backend: str
    missing: tuple[str, ...]
    counts: Mapping[str, tuple[int, int]]

    @property
    def key(self) -> tuple[str, str, str]:
        """A card has one run of each."""
        return self.client, self.version, self.backend

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Run:
        """Return the run that `as_json` wrote."""
        counts = {feature: (passed, failed) for feature, (passed, failed) in values["counts"].items()}
        return cls(**{**values, "missing": tuple(values["missing"]), "counts": counts})


def as_json(runs: Iterable[Run]) -> str:
    """Return runs as JSON, ordered, a line each."""
    lines = ",\n".join(json.dumps(asdict(run)) for run in sorted(runs, key=_order))
    return f'{{"runs": [\n{lines}\n]}}\n'


def load(path: Path = KEPT) -> list[Run]:
    """Return the runs of a file; empty: it does not exist."""
    if not path.is_file():
        return []
    return [Run.from_dict(values) for values in json.loads(path.read_text(encoding="utf-8")).get("runs", ())]


def merged(kept: Iterable[Run], new: Iterable[Run]) -> list[Run]:
    """Return all runs. New ones of one key are added up, and replace the cells of the kept one that
    they have: cases on secured brokers come from runs of two kinds.
    """
    runs = {run.key: run for run in kept}
    sums: dict[tuple[str, str, str], Run] = {}
    for run in new:
        sums[run.key] = _sum(sums[run.key], run) if run.key in sums else run
    for key, run in sums.items():
        before = runs[key].counts if key in runs else {}
        runs[key] = replace(run, counts={**before, **run.counts})
    return sorted(runs.values(), key=_order)


def _sum(one: Run, other: Run) -> Run:
    counts = {
        feature: (
            one.counts.get(feature, (0, 0))[0] + other.counts.get(feature, (0, 0))[0],
            one.counts.get(feature, (0, 0))[1] + other.counts.get(feature, (0, 0))[1],
        )
        for feature in {**one.counts, **other.counts}
    }
    return replace(one, counts=counts)


def worse(card: Iterable[Run], runs: Iterable[Run]) -> list[str]:
    """Return the cells of the card that passed, and that these runs contradict.

    A run of another version is compared with the newest one on the card; what that does not offer
    is a matter of the version. What a run left out contradicts nothing.
    """
    newest: dict[tuple[str, str], Run] = {}
    exact: dict[tuple[str, str, str], Run] = {}
    for run in sorted(card, key=_order):
        newest[run.client, run.backend] = exact[run.key] = run
    found = []
    for run in runs:
        kept = exact.get(run.key) or newest.get((run.client, run.backend))
        for feature, (passed, failed) in kept.counts.items() if kept is not None else ():
            what = f"{run.client} {run.version}, {run.backend}: {short(feature)}"
            if failed or not passed:
                continue
            if run.counts.get(feature, (0, 0))[1]:
                found.append(f"{what}: {run.counts[feature][1]} failed")
            elif feature in run.missing and run.key in exact:
                found.append(f"{what}: is not offered any more")
    return found


def short(feature: str) -> str:
    """Return a feature without its remark in parentheses."""
    return feature.split(" (")[0]


def remark(feature: str) -> str:
    """Return the remark: why some clients do not offer the feature. Empty: there is none."""
    return feature.partition(" (")[2].removesuffix(")")


class Card:
    """The page of runs.

    Args:
        features: all of them, in the order of the page.
        backends: the columns.
    """

    def __init__(self, runs: Iterable[Run], features: Sequence[str], backends: Sequence[str]) -> None:
        self._runs = {run.key: run for run in runs}
        self._features = features
        self._backends = backends
        self._remarked = [feature for feature in features if remark(feature)]
        versions = {(run.client, run.version): run for run in self._runs.values()}
        self.versions = sorted(versions, key=lambda key: (key[0], _numbers(key[1])))
        self._any = versions

    def markdown(self) -> str:
        """Return the page."""
        sections = [f"## {client} {version}\n\n{self._table(client, version)}\n" for client, version in self.versions]
        notes = [f"{number}. {short(one)}: {remark(one)}" for number, one in enumerate(self._remarked, 1)]
        return "\n".join([HEAD, "## All\n", self._summary(), "", *sections, "## Notes\n", *notes, ""])

    def cell(self, client: str, version: str, backend: str, feature: str) -> str:
        """Return `7` for seven cases that passed, `- (2)` for a feature that the client does not
        offer for the reason of note 2.
        """
        if feature in self._any[client, version].missing:
            note = f" ({self._remarked.index(feature) + 1})" if feature in self._remarked else ""
            return NOT_OFFERED + note
        run = self._runs.get((client, version, backend))
        if run is None:
            return NOT_RUN
        passed, failed = run.counts.get(feature, (0, 0))
        return f"**{failed} failed**" if failed else str(passed or "")

    def _summary(self) -> str:
        rows = []
        for client, version in self.versions:
            cells = [self._total(self._runs.get((client, version, backend))) for backend in self._backends]
            rows.append((f"[{client} {version}](#{anchor(f'{client} {version}')})", *cells))
        return _table(("client", *self._backends), rows)

    def _total(self, run: Run | None) -> str:
        if run is None:
            return NOT_RUN
        passed, failed = (sum(counts) for counts in zip(*run.counts.values(), strict=True))
        return f"**{failed} of {passed + failed} failed**" if failed else str(passed)

    def _table(self, client: str, version: str) -> str:
        rows = [
            (short(feature), *(self.cell(client, version, backend, feature) for backend in self._backends))
            for feature in self._features
        ]
        return _table(("feature", *self._backends), rows)


def anchor(heading: str) -> str:
    """Return the anchor of a heading, as Git hosts and the site make it."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def page(runs: Iterable[Run]) -> str:
    """Return docs/report-card.md."""
    from compat_tests.report import BACKENDS, FEATURES

    return Card(runs, FEATURES, BACKENDS).markdown()


def call_markdown(clients: Iterable[Mapping[str, Any]]) -> str:
    """Return the table of the clients that make every call of theirs, ordered by language."""
    columns = (LANGUAGE, CLIENT, MADE, SAME)
    return _table(CALL_HEAD, sorted(tuple(str(one[name]) for name in columns) for one in clients))


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows))


def place(name: str) -> re.Pattern[str]:
    """Return the pattern of what is between the comments that name a table."""
    return re.compile(rf"(?<=<!-- {name} -->\n).*?(?=\n<!-- end -->)", re.DOTALL)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(one) for one in re.findall(r"\d+", version))


def _order(run: Run) -> tuple[str, tuple[int, ...], str]:
    return run.client, _numbers(run.version), run.backend


def _reports(names: Iterable[str]) -> Iterator[Mapping[str, Any]]:
    return (json.loads(Path(name).read_text(encoding="utf-8")) for name in names)


def keep(new: Iterable[Run]) -> None:
    """Put runs on the card, and write its page."""
    runs = merged(load(), new)
    KEPT.write_text(as_json(runs), encoding="utf-8")
    PAGE.write_text(page(runs), encoding="utf-8")


def main(names: Sequence[str]) -> None:
    """Take over reports; without any, write the page of what is kept."""
    keep(run for name in names for run in load(Path(name)))
    clients = [client for report in _reports(names) for client in report.get(CALLS, ())]
    if clients:
        text = DOCUMENT.read_text(encoding="utf-8")
        DOCUMENT.write_text(place(CALL_TABLE).sub(lambda _: call_markdown(clients), text), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
