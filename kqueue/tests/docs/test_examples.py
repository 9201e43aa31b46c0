"""Every example runs, exits with status 0, and prints the expected lines; examples/README.md
lists them all.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from configparser import ConfigParser
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import pytest

from kqueue.testing.process_environment import process_environment
from kqueue.tests.doc_pages import run_here
from kqueue.tests.tables import for_each

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "examples"
README = (EXAMPLES / "README.md").read_text()
CLIENTS = {
    "kafka": "kafka-python",
    "aiokafka": "aiokafka",
    "confluent_kafka": "confluent-kafka",
    "faststream": "FastStream (aiokafka)",
}
"""By the module that an example imports: what the table calls the client."""
SLOW = {"exactly_once.py", "flash_sale.py", "log_collection.py", "order_outbox.py"}
PROCESSES = {"exactly_once.py", "log_collection.py", "order_outbox.py"}
"""Examples that start processes of themselves; the others run in that of the test."""
OWN_ENVIRONMENT = {"faststream_app.py": "faststream"}
"""Examples that `tox -m frameworks` runs, because of what the module brings along."""
PROMISES = {
    "quickstart.py": [r"a broker listens on 127\.0\.0\.1:\d+", *(rf"offset {n}: hello {n + 1}" for n in range(5))],
    "acknowledged_queue.py": [
        r"worker 1 dies while it has job \d+",
        r"worker 2 did \d+ jobs",
        "40 of 40 jobs are done, 0 of them more than once",
    ],
    "seeded_tests.py": [
        *(
            rf"as Kafka {version}: <group billing: .*; orders-0 at 3 \(lag 0\)>"
            for version in (r"2\.8", r"3\.9", r"4\.3")
        ),
        "one more order, and nobody there: group billing has consumed 3 of 4 records of orders: partition 0 at 3 of 4",
    ],
    "log_collection.py": [
        r"the agent was killed after the consumer had seen 1000 lines",
        "meanwhile the log was rotated and has grown",
        r"6000 of 6000 lines arrived, 0 of them twice; errors: web \d+, billing \d+, mail \d+",
    ],
    "flash_sale.py": [
        r"1000 customers came: [1-9]\d\d orders were accepted, [1-9]\d* refused at once",
        r"the queue never held more than 100 orders; the shop handled [1-9]\d\d of them",
    ],
    "registration_mail.py": [
        # The sleeps of database and mail services are lower bounds; a busy machine takes longer.
        r"one after another: a user waits (1[5-9]\d|[2-9]\d\d|\d{4,}) ms",
        r"in parallel:       a user waits ([1-9]\d\d|\d{4,}) ms",
        r"through a queue:   a user waits ([5-9]\d|\d{3,}) ms",
        "welcome: sent to 10 of 10 users",
        "address check: sent to 10 of 10 users",
    ],
    "decoupling.py": [
        "by calls: 20 of 30 orders were taken",
        "10 orders wait in the queue; the stock service comes back",
        "through a queue: 30 of 30 orders were taken, 30 left the stock",
    ],
    "chat_room.py": [
        *(
            rf"{who} saw 4 lines\n    Ada: is anybody here\?\n    Bob: I am\n    Cleo: good morning!\n    Ada: .*\n"
            for who in ("Ada", "Bob", "the archive")
        ),
        r"Cleo saw 2 lines\n    Cleo: good morning!\n    Ada: good morning, Cleo\n",
    ],
    "durable_subscription.py": [
        "the subscriber got: Monday, Tuesday\n",
        "a visitor got: Friday\n",
        "the subscriber, back again, got: Wednesday, Thursday, Friday\n",
    ],
    "blocking_pull.py": [
        r"after 0\.[5-9] s: nothing",
        r"after [0-4]\.\d s: task 0\n",
        *(f"s: {tasks}\n" for tasks in ("task 1, task 2, task 3", "task 4, task 5, task 6", "task 7")),
        r"it reads from task 2 again\nafter .* s: task 2, task 3, task 4\n",
        r"it skips to task 7\nafter .* s: task 7\n",
    ],
    "asyncio_listener.py": [
        "skipped b'not an order' at offset 2: ",
        r"another task ran \d+ times meanwhile",
        r"starts again\nAda ordered for 10\nsums: {'Ada': 15, 'Bob': 5, 'Cleo': 5}",
    ],
    "order_outbox.py": [
        "orders: 10 pending; messages in the queue: 0",
        "the queue has confirmed order 5; the shop dies before it writes that down",
        "orders: 4 confirmed, 6 pending; messages in the queue: 5",
        "orders: 10 confirmed; messages in the queue: 11",
        "10 of 10 orders are confirmed, 10 are billed",
        "1 message came twice and was billed once",
    ],
    "exactly_once.py": [
        "the worker dies at payment 110, in the middle of a transaction",
        r"read_uncommitted: 2(?!00)\d\d receipts for 200 payments",
        "read_committed:   200 receipts for 200 payments",
    ],
    "dead_letters.py": [
        "order 11 fails, delivery 1\n",
        *(f"order 23 fails, delivery {number}\n" for number in (1, 2, 3)),
        "38 of 40 orders were accepted, 1 was rejected\n",
        r"orders-dead: {: rejected after 1 \(offset 7\)\n",
        r'orders-dead: {"order": 23}: delivery count limit after 3 \(offset 23\)\n',
    ],
    "custom_partitioner.py": [
        r"default, kafka-python: Ada in \d, \d",
        r"by-customer, kafka-python: (Ada in \d; Bob in \d; Cleo in \d; Dan in \d)\nby-customer, aiokafka: \1\n",
    ],
    "faststream_app.py": ["Ada pays 6\nBob pays 2\nAda pays 6\n3 bills for 3 orders"],
}


class Row(NamedTuple):
    """A row of the table in examples/README.md."""

    name: str
    link: str
    style: str
    client: str
    time: str
    seen: str


ROWS = [
    Row(*cells) for cells in re.findall(r"^\| \[(.+?)\]\((.+?)\) \|" + r" (.+?) \|" * 4 + "$", README, re.MULTILINE)
]
COMMANDS = [
    line for block in re.findall(r"^```sh\n(.*?)^```$", README, re.M | re.DOTALL) for line in block.splitlines()
]
RUNS = [line for line in COMMANDS if not line.startswith("pip install ")]


def imported_modules(name: str) -> set[str]:
    tree = ast.parse((EXAMPLES / name).read_text())
    modules = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    return {module.partition(".")[0] for module in modules}


def docstring(name: str) -> str:
    return ast.get_docstring(ast.parse((EXAMPLES / name).read_text())) or ""


def test_every_example_has_expected_lines() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(PROMISES)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.long) if name in SLOW else name for name in PROMISES]
)
def test_example(name: str, tmp_path: Path) -> None:
    module = OWN_ENVIRONMENT.get(name)
    if module is not None and find_spec(module) is None:
        pytest.skip(f"needs {module}: tox -m frameworks")
    if name in PROCESSES:
        command = [sys.executable, EXAMPLES / name]
        result = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
        assert result.returncode == 0, result.stdout + result.stderr
        printed = result.stdout
    else:
        printed, _ = run_here(EXAMPLES / name, tmp_path)
    for promise in PROMISES[name]:
        assert re.search(promise, printed), f"{promise!r} is not in:\n{printed}"


def test_the_table_has_every_example_and_its_client() -> None:
    assert [row.name for row in ROWS] == [row.link for row in ROWS]
    assert sorted(row.name for row in ROWS) == sorted(PROMISES)
    for row in ROWS:
        modules = imported_modules(row.name)
        assert row.client == ", ".join(client for module, client in CLIENTS.items() if module in modules), row.name
        assert re.fullmatch(r"[1-8] s", row.time), row.name


@for_each("name", PROMISES)
def test_the_docstring_says_how_to_run_it_and_what_it_needs(name: str) -> None:
    (needs,) = re.findall(
        rf"^Run it with: python examples/{name} +\(needs kqueue (.+)\)$", docstring(name), re.MULTILINE
    )
    modules = imported_modules(name)
    assert ("with the extra `cli`" in needs) == ("kafka" in modules)
    packages = re.findall("aiokafka|confluent-kafka|faststream", needs)
    assert {package.replace("-", "_") for package in packages} == modules & {*CLIENTS} - {"kafka"}


def test_every_command_of_the_readme_runs() -> None:
    assert RUNS
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    for line in RUNS:
        result = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", line],
            cwd=ROOT,
            env=process_environment(PATH=path),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert (result.returncode, result.stderr) == (0, ""), result.stdout


def test_the_readme_installs_what_the_clients_of_the_table_are_in() -> None:
    (line,) = (line for line in COMMANDS if line not in RUNS)
    installed = {package.strip("'").partition("[")[0] for package in line.removeprefix("pip install ").split()}
    named = {client.partition(" ")[0].lower() for row in ROWS for client in row.client.split(", ")}
    assert installed == named - {"kafka-python"}


def test_the_environment_of_its_own_brings_what_its_examples_import() -> None:
    tox = ConfigParser(interpolation=None)
    tox.read(ROOT / "tox.ini")
    brought = {re.split(r"[\[<>=]", line)[0] for line in tox["testenv:frameworks"]["deps"].split()}
    assert set(OWN_ENVIRONMENT.values()) <= brought
    for name in OWN_ENVIRONMENT:
        assert name.removesuffix(".py") in tox["testenv:frameworks"]["commands"]


def test_links_lead_somewhere() -> None:
    for link in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", README):
        assert (EXAMPLES / link).exists(), link
