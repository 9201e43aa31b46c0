"""Limits that keep the source readable.

A violation is mended, or entered in `EXEMPTIONS` with its reason. The table may only shrink:
an entry that is no longer needed fails the test, and so does an entry more than
`EXEMPTIONS_MAX`, which is lowered when one goes and never raised.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from kqueue.tests import source_tree
from kqueue.tests.source_tree import DOCUMENTS, ROOT, SOURCES, SourceFile
from kqueue.tests.thorough import corners

FUNCTION_LINES_MAX = 70
PARAMETERS_MAX = 8
PROSE_COLUMNS_MAX = 120

SPARK = "needs pyspark, which the default tests lack; tested in compat_tests/spark/"
KERNEL = "compiled by numba, which takes arrays and numbers one by one"
HOT_LOOP = "one hot loop; a call per record would cost more than it explains"

EXEMPTIONS: dict[str, dict[str, str]] = {
    "class name": {
        "wire:": "the parts of messages have the names that Kafka gives them; each message is a namespace",
    },
    "docstring": {
        "kqueue/wire/messages/": "the classes are tables of Kafka's fields; each module names its messages",
    },
    "function length": {
        "kqueue/records/arrow/decode_kernels.py:decode": HOT_LOOP,
        "kqueue/records/arrow/encode_kernels.py:encode": HOT_LOOP,
        "kqueue/records/record.py:_decode": HOT_LOOP,
    },
    "parameters": {
        "kqueue/embedded/": "Broker and Cluster, the public API, all by keyword",
        "kqueue/log/compaction/kernels.py:": KERNEL,
        "kqueue/log/manager.py:LogManager.__init__": "ids and limits of a whole broker, all by keyword",
        "kqueue/records/arrow/decode_kernels.py:": KERNEL,
        "kqueue/records/arrow/encode_kernels.py:": KERNEL,
        "kqueue/records/builder.py:BatchBuilder.__init__": "the fields of a batch's header, all by keyword",
        "kqueue/testing/fault_injection.py:Faults.delay": "the public API: times, and the selectors of all faults",
        "kqueue/tests/groups/support.py:World.join": "the fields of a JoinGroup request, all with defaults",
    },
    "tests": {
        "kqueue/records/arrow/encode_kernels.py": "compiled; tests/records/arrow/test_encoder.py runs it",
        "kqueue/spark/datasource.py": SPARK + "test_source_batch.py",
        "kqueue/spark/jobs/sql_validation.py": SPARK + "test_jobs_ingest.py",
        "kqueue/spark/jobs/archive.py": SPARK + "test_jobs_archive.py",
        "kqueue/spark/jobs/audit/record_scan.py": SPARK + "test_jobs_audit.py",
        "kqueue/spark/jobs/delays.py": SPARK + "test_demo.py",
        "kqueue/spark/jobs/ingest.py": SPARK + "test_jobs_ingest.py",
        "kqueue/spark/jobs/replay.py": SPARK + "test_jobs_archive.py",
        "kqueue/spark/progress.py": SPARK + "test_progress.py",
        "kqueue/spark/sink/writer.py": SPARK + "test_sink_batch.py",
        "kqueue/spark/source/spark_readers.py": SPARK + "test_source_stream.py",
        "kqueue/spark/stores/hadoop.py": SPARK + "test_stores.py",
        "kqueue/spark/tables/table.py": SPARK + "test_jobs_ingest.py",
        "kqueue/spark/transforms.py": SPARK + "test_transforms.py",
        "kqueue/testing/contract_checks.py": "the runner of all checkers; tests/testing/test_isolation.py runs it",
        "kqueue/testing/simulation.py": "the simulated broker in which tests/api and tests/broker run",
    },
}
"""By rule: the beginning of the violations that are exempt, and why."""
EXEMPTIONS_MAX = 29


class Functions(NamedTuple):
    """What is found in all functions. `files`: of those that do something."""

    long: list[str]
    with_many_parameters: list[str]
    files: set[Path]


def functions(files: Iterable[SourceFile]) -> Functions:
    """The parameters of a click command are its options: what users may say, and no call."""
    defined = Functions([], [], set())
    for file in files:
        for name, function in file.functions():
            if file.path not in defined.files and source_tree.does_something(function):
                defined.files.add(file.path)
            if source_tree.lines_of(function) > FUNCTION_LINES_MAX:
                defined.long.append(f"{file.path}:{name}")
            if source_tree.parameters_of(function) > PARAMETERS_MAX and not source_tree.is_command(function):
                defined.with_many_parameters.append(f"{file.path}:{name}")
    return defined


def classes_of_one_name(shipped: list[SourceFile]) -> Iterator[str]:
    for (package, name), modules in source_tree.classes_by_package(shipped).items():
        if len(modules) > 1:
            yield f"{package}: {name} in {', '.join(sorted(modules))}"


def modules_without_tests(shipped: list[SourceFile], defined: Functions) -> Iterator[str]:
    """Contracts, errors and constants do nothing by themselves; a module of them needs no test."""
    for file in shipped:
        if file.path in defined.files and not any(path.exists() for path in source_tree.test_paths(file)):
            yield str(file.path)


def import_circles(shipped: list[SourceFile]) -> Iterator[str]:
    """The package's front door imports what a user asks it for; it takes part in no circle of
    modules.
    """
    files = [file for file in shipped if file.module != "kqueue"]
    for circle in source_tree.circles(source_tree.import_graph(files)):
        yield " <-> ".join(circle)


def long_lines_of_prose() -> Iterator[str]:
    paths = {path for pattern in DOCUMENTS for path in ROOT.glob(pattern)}
    for path in sorted(paths):
        for number, line in source_tree.prose_lines(path):
            if len(line) > PROSE_COLUMNS_MAX:
                yield f"{path.relative_to(ROOT)}:{number}"


def rules_of_functions(defined: Functions) -> dict[str, list[str]]:
    return {"function length": defined.long, "parameters": defined.with_many_parameters}


def rules_of_shipped_files() -> dict[str, list[str]]:
    """Return what breaks each rule. Each file is parsed once, which takes the longest."""
    shipped = list(source_tree.shipped_files())
    defined = functions(shipped)
    return {
        **rules_of_functions(defined),
        "class name": list(classes_of_one_name(shipped)),
        "docstring": list(source_tree.undocumented(shipped)),
        "import circle": list(import_circles(shipped)),
        "prose": list(long_lines_of_prose()),
        "tests": list(modules_without_tests(shipped, defined)),
    }


def rules_of_other_files() -> dict[str, list[str]]:
    """Do as `rules_of_shipped_files` does, for the tests, benchmarks and examples."""
    paths = {file.path for file in source_tree.shipped_files()}
    return rules_of_functions(functions(file for file in source_tree.source_files(*SOURCES) if file.path not in paths))


@pytest.fixture
def no_collection() -> Iterator[None]:
    """The garbage collector takes three times as long as the parser, and finds nothing."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_collection")
@pytest.mark.parametrize("violations_by_rule", corners([rules_of_shipped_files, rules_of_other_files]))
def test_every_rule_is_kept_but_for_the_exemptions(violations_by_rule: Callable[[], dict[str, list[str]]]) -> None:
    of_tests = violations_by_rule is rules_of_other_files
    by_rule = violations_by_rule()
    broken, needless = [], []
    for rule, violations in by_rule.items():
        exemptions = [one for one in EXEMPTIONS.get(rule, {}) if one.startswith("kqueue/tests/") == of_tests]
        broken += [f"{rule}: {one}" for one in violations if not one.startswith(tuple(exemptions))]
        needless += [
            f"{rule}: {exempt}" for exempt in exemptions if not any(one.startswith(exempt) for one in violations)
        ]
    assert of_tests or set(EXEMPTIONS) <= set(by_rule)
    assert broken == []
    assert needless == [], "remove these from EXEMPTIONS and lower EXEMPTIONS_MAX"


def test_the_exemptions_only_shrink() -> None:
    assert sum(map(len, EXEMPTIONS.values())) == EXEMPTIONS_MAX
    assert all(len(reason) > 20 for reasons in EXEMPTIONS.values() for reason in reasons.values())
