from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError

from kqueue.cli.app import kqueue as root
from kqueue.config.environment import ENVIRONMENT_PREFIX
from kqueue.config.kafka_settings import reason_for
from kqueue.supervisor.line_limit import LINES_MAX
from kqueue.testing.process_environment import process_environment
from kqueue.tests.processes import started
from kqueue.tests.tables import for_each
from kqueue.tests.thorough import corners
from kqueue.tests.waits import eventually

LISTENS = re.compile(r"serves PLAINTEXT://(127\.0\.0\.1:\d+); data in (\S+)")
ANY_PORT = "listeners=PLAINTEXT://127.0.0.1:0"


class Served:
    """A running `kqueue serve`."""

    def __init__(self, process: subprocess.Popen[str], line: str) -> None:
        self.process = process
        self.line = line
        match = LISTENS.search(line)
        assert match is not None, line
        self.bootstrap, self.folder = match.groups()

    def end(self, number: signal.Signals = signal.SIGTERM) -> str:
        """Send the signal; return standard error after the first line."""
        self.process.send_signal(number)
        return self.process.communicate(timeout=60)[1]


@contextlib.contextmanager
def serving(*args: str, env: dict[str, str] | None = None, cwd: Path | None = None) -> Iterator[Served]:
    command = [sys.executable, "-m", "kqueue.cli", "serve", *args]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=process_environment(**(env or {})),
        cwd=cwd,
    ) as process:
        try:
            assert process.stderr is not None
            # a member says first what it finds in the cluster
            lines = iter(process.stderr.readline, "")
            yield Served(process, next((line for line in lines if LISTENS.search(line)), ""))
        finally:
            process.kill()


def refused(*args: str, env: dict[str, str] | None = None) -> tuple[int, str]:
    command = [sys.executable, "-m", "kqueue.cli", "serve", *args]
    result = subprocess.run(
        command, capture_output=True, text=True, timeout=100, check=False, env=process_environment(**(env or {}))
    )
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    return result.returncode, result.stderr


@pytest.mark.parametrize("number", corners([signal.SIGTERM, signal.SIGINT], signal.SIGINT))
def test_serves_stops_cleanly_and_keeps_its_data(tmp_path: Path, number: signal.Signals) -> None:
    folder = tmp_path / "data"
    for offset in range(2):
        with serving("--set", f"log.dirs={folder}", "--set", ANY_PORT) as served:
            assert served.folder == str(folder)
            assert re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} INFO    kqueue \d", served.line)
            producer = KafkaProducer(bootstrap_servers=served.bootstrap)
            assert producer.send("orders", b"%d" % offset).get(timeout=60).offset == offset
            producer.close()
            consumer = KafkaConsumer(
                "orders", bootstrap_servers=served.bootstrap, auto_offset_reset="earliest", consumer_timeout_ms=10_000
            )
            assert [next(consumer).value for _ in range(offset + 1)] == [b"0", b"1"][: offset + 1]
            consumer.close()
            log = served.end(number)
        assert served.process.returncode == (130 if number is signal.SIGINT else 0)
        assert [line.split(maxsplit=3)[3] for line in log.splitlines()] == ["stopping", "stopped"]
        assert (folder / ".kafka_cleanshutdown").exists()


@pytest.mark.long
def test_stop_does_not_wait_for_consumers_and_they_reconnect(tmp_path: Path) -> None:
    with serving("--set", f"log.dirs={tmp_path}", "--set", ANY_PORT) as served:
        producer = KafkaProducer(bootstrap_servers=served.bootstrap)
        producer.send("orders", b"first").get(timeout=60)
        producer.close()
        command = [sys.executable, "-m", "kqueue.cli", "consume", "orders", "--from-beginning", "-b", served.bootstrap]
        with started(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as consumer:
            assert consumer.stdout is not None
            assert consumer.stdout.readline() == "first\n"
            served.end()
            assert served.process.returncode == 0
            with serving(
                "--set", f"log.dirs={tmp_path}", "--set", f"listeners=PLAINTEXT://{served.bootstrap}"
            ) as again:
                producer = KafkaProducer(bootstrap_servers=again.bootstrap)
                producer.send("orders", b"second").get(timeout=60)
                producer.close()
                assert consumer.stdout.readline() == "second\n"
                consumer.send_signal(signal.SIGINT)
                assert consumer.communicate(timeout=60) == ("", "")
                assert consumer.returncode == 130


JSON = ("--set", "kqueue.log.format=json")


@pytest.mark.long
def test_each_line_is_an_object_from_the_first_to_the_last(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(f"listeners=PLAINTEXT://127.0.0.1:0\nlog.dirs={tmp_path}/a\nmade.up=1\nkqueue.log.format=json\n")
    command = [sys.executable, "-m", "kqueue.cli", "-v", "serve", str(file), "-t", "orders"]
    settings = ["--set", "kqueue.slow.request.ms=0", "--set", "kqueue.request.log.sample=1"]
    with started([*command, *settings], stderr=subprocess.PIPE, text=True, env=process_environment()) as process:
        assert process.stderr is not None
        lines = []
        for line in process.stderr:
            lines.append(line)
            if match := LISTENS.search(line):
                break
        host, port = match[1].split(":")  # type: ignore[index]
        producer = KafkaProducer(bootstrap_servers=match[1], client_id="a\n\x1b[2J\u202e")  # type: ignore[index]
        producer.send("orders", b"first").get(timeout=60)
        producer.close()
        for _ in range(30):
            with socket.create_connection((host, int(port))) as client:
                client.sendall(b"GET / HTTP/1.1\r\n\r\n")
                assert client.recv(1) == b""
        process.send_signal(signal.SIGTERM)
        lines += process.communicate(timeout=60)[1].splitlines()
    documents = [json.loads(line) for line in lines]
    events = Counter(document["event"] for document in documents)
    assert events["setting.left-out"] == events["broker.started"] == events["broker.stopped"] == 1
    assert events["topic.created"] == 1
    assert events["request.slow"] == events["request.sampled"] > 0
    assert events["connection.closed"] == LINES_MAX
    (left_out,) = (document["fields"] for document in documents if document["event"] == "log-lines.left-out")
    assert left_out == {"of": "connection.closed", "lines": 30 - LINES_MAX}
    of_client = [document for document in documents if document.get("fields", {}).get("api") == "Produce"]
    assert of_client
    assert {document["fields"]["client_id"] for document in of_client} == {"a\n\x1b[2J\u202e"}


@pytest.mark.long
def test_workers_write_objects_with_their_names(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "kqueue.cli", "serve", "--workers", "1", *JSON, "--set", ANY_PORT]
    with started(
        [*command, "--set", f"log.dirs={tmp_path}"], stderr=subprocess.PIPE, text=True, env=process_environment()
    ) as process:
        assert process.stderr is not None
        lines = []
        for line in process.stderr:
            lines.append(json.loads(line))
            if lines[-1]["event"] == "workers.started":
                break
        process.send_signal(signal.SIGTERM)
        lines += map(json.loads, process.communicate(timeout=60)[1].splitlines())
    assert {line["process"] for line in lines} == {"supervisor", "worker 0"}


@for_each("setting", ["listeners=nonsense", "kqueue.slow.request.ms=-2", "node.id=many"])
def test_why_a_broker_can_not_start_is_an_object(setting: str) -> None:
    status, text = refused_here(*JSON, "--set", setting)
    (document,) = map(json.loads, text.splitlines())
    assert (status, document["event"], document["level"]) == (2, "broker.failed", "ERROR")
    assert setting.partition("=")[0] in document["message"]


def test_another_form_of_lines_is_refused(tmp_path: Path) -> None:
    status, text = refused_here("--set", "kqueue.log.format=xml")
    assert status == 2
    assert "kqueue.log.format" in text
    assert "plain, json" in text


def refused_here(*args: str, env: dict[str, str] | None = None) -> tuple[int, str]:
    """Do as `refused` does, in this process: for what ends before the broker has begun."""
    others = dict.fromkeys(name for name in os.environ if name.startswith(ENVIRONMENT_PREFIX))
    result = CliRunner(env={**others, **(env or {})}).invoke(root, ["serve", *args])
    assert isinstance(result.exception, SystemExit)
    assert result.stdout == ""
    return result.exit_code, result.stderr


@pytest.mark.long
@pytest.mark.parametrize("winner", corners(["file", "environment", "set"], "environment", "set"))
def test_the_environment_wins_over_the_file_and_set_over_both(tmp_path: Path, winner: str) -> None:
    file = tmp_path / "server.properties"
    file.write_text(f"log.dirs={tmp_path / 'file'}\nlisteners=PLAINTEXT://127.0.0.1:0\n")
    env = {"KQUEUE_LOG_DIRS": str(tmp_path / "environment")} if winner != "file" else {}
    args = ["--set", f"log.dirs={tmp_path / 'set'}"] if winner == "set" else []
    with serving(str(file), *args, env=env) as served:
        assert served.folder == str(tmp_path / winner)


def test_settings_of_kafka_without_a_meaning_are_warned_of(tmp_path: Path) -> None:
    with contextlib.chdir(tmp_path):
        _, text = refused_here("--set", "zookeeper.connect=zk:2181", "--set", "listeners=nonsense")
    assert (
        "WARNING --set zookeeper.connect: zookeeper.connect has no effect and is left out: "
        f"{reason_for('zookeeper.connect')}\n" in text
    )


@pytest.mark.long
def test_without_settings_the_data_is_in_the_working_folder(tmp_path: Path) -> None:
    with serving("--set", ANY_PORT, cwd=tmp_path) as served:
        assert served.folder == str(tmp_path / "kqueue-data")


@pytest.mark.long
def test_a_second_broker_on_the_same_folder_is_refused(tmp_path: Path) -> None:
    with serving("--set", f"log.dirs={tmp_path}", "--set", ANY_PORT):
        status, text = refused_here("--set", f"log.dirs={tmp_path}", "--set", ANY_PORT)
    assert status == 1
    assert re.fullmatch(
        rf"Error: {tmp_path}\S* is locked by another process\. Stop the broker that uses it, .*\n", text
    )


@pytest.mark.long
def test_a_port_in_use_is_refused_and_leaves_no_new_folder(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as bound:
        port = bound.getsockname()[1]
        folder, listeners = tmp_path / "a" / "b", f"PLAINTEXT://127.0.0.1:{port}"
        status, text = refused("--set", f"log.dirs={folder}", "--set", f"listeners={listeners}")
    assert status == 1
    assert "Address already in use" in text
    assert list(tmp_path.iterdir()) == []
    assert re.fullmatch(
        rf"Error: listener PLAINTEXT://127\.0\.0\.1:{port} can't be opened: .*\. Choose another address: .*\n", text
    )


@for_each(
    "args, words",
    [
        (["--set", "num.partition=3"], "did you mean 'num.partitions'?"),
        (
            ["--set", "num.partitions=none"],
            "Invalid value none for configuration num.partitions: Not a number of type INT; expected a 32-bit number",
        ),
        (["--set", "num.partitions"], "expected name=value, found 'num.partitions'"),
        (["no-such-file"], "no-such-file can't be read"),
        (["--set", "listeners=nonsense"], "listeners"),
    ],
)
def test_a_bad_setting_is_exit_status_2(args: list[str], words: str) -> None:
    status, text = refused_here(*args)
    assert status == 2
    assert text.startswith("Error: ")
    assert text.count("\n") == 1
    assert words in text


def test_a_bad_variable_is_named() -> None:
    status, text = refused_here(env={"KQUEUE_NUM_PARTITIONS": "many"})
    assert status == 2
    assert text.startswith("Error: environment variable KQUEUE_NUM_PARTITIONS: ")


def test_folder_that_cannot_be_created(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    status, text = refused_here("--set", f"log.dirs={tmp_path / 'file' / 'data'}", "--set", ANY_PORT)
    assert status == 1
    assert text.startswith("Error: ")


def test_serve_emulates_a_kafka_version(tmp_path: Path) -> None:
    with serving("--set", ANY_PORT, "--set", f"log.dirs={tmp_path}", "--as-version", "2.8") as served:
        producer = KafkaProducer(bootstrap_servers=served.bootstrap)
        assert producer.config["api_version"] == (2, 8)
        producer.close()
    status, text = refused_here("--as-version", "2.7", "--set", f"log.dirs={tmp_path}")
    assert status == 2
    assert (
        "kqueue.as.version: Invalid value 2.7 for configuration kqueue.as.version: String must be one of: 2.8, 3.9, 4.3"
        in text
    )


MY_MODULE = """
from kqueue.metadata.sqlite import SqliteStore
from kqueue.storage import LocalStorage

class Mine(LocalStorage):
    def __init__(self, folder):
        super().__init__(folder + "-mine")

def make(folder):
    return Mine(folder)

def open_store(folder):
    return SqliteStore(folder + "-mine/topics.db")

def odd(folder):
    return 5
"""


@pytest.mark.long
def test_storage_and_metadata_store_may_come_from_a_module(tmp_path: Path) -> None:
    (tmp_path / "my_module.py").write_text(MY_MODULE)
    mine = ("--set", "kqueue.storage=my_module:make", "--set", "kqueue.metadata=my_module:open_store")
    folder, env = tmp_path / "data", {"PYTHONPATH": str(tmp_path)}
    for offset in range(2):
        with serving("--set", f"log.dirs={folder}", "--set", ANY_PORT, *mine, env=env) as served:
            producer = KafkaProducer(bootstrap_servers=served.bootstrap)
            assert producer.send("orders", b"%d" % offset).get(timeout=60).offset == offset
            producer.close()
            served.end()
        assert served.process.returncode == 0
    assert not folder.exists()
    assert (tmp_path / "data-mine" / "orders-0").is_dir()
    assert (tmp_path / "data-mine" / "topics.db").is_file()


@contextlib.contextmanager
def imported_anew(module: str) -> Iterator[None]:
    """Forget a module of this test's folder at the end: the next test has another."""
    try:
        yield
    finally:
        sys.modules.pop(module, None)


@pytest.mark.parametrize(
    ("pair", "words"),
    [
        (
            "kqueue.storage=my_module:mak",
            "kqueue.storage=my_module:mak: .*'my_module' has no 'mak'; did you mean 'make'",
        ),
        (
            "kqueue.storage=my_modul:make",
            "module 'my_modul' can't be imported: ModuleNotFoundError.*name its folder in PYTHONPATH",
        ),
        (
            "kqueue.storage=my_module:odd",
            "kqueue.storage=my_module:odd: .*expected a Storage, found int without the method open",
        ),
        (
            "kqueue.metadata=my_module:odd",
            "kqueue.metadata=my_module:odd: .*expected a MetadataStore, found int without the method read",
        ),
        ("kqueue.codecs=zsdt", "kqueue.codecs=zsdt: no codec is called 'zsdt'; did you mean 'zstd'"),
        ("kqueue.partitioners=mine", "kqueue.partitioners=mine: expected name=module:Class"),
    ],
)
def test_unusable_plugin_is_reported_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pair: str, words: str
) -> None:
    (tmp_path / "my_module.py").write_text(MY_MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    with imported_anew("my_module"):
        code, text = refused_here("--set", f"log.dirs={tmp_path / 'data'}", "--set", ANY_PORT, "--set", pair)
    assert code == 2
    assert re.search(words, " ".join(text.split())), text


@pytest.mark.long
def test_missing_topics_are_created_at_the_start(tmp_path: Path) -> None:
    place = ("--set", ANY_PORT, "--set", f"log.dirs={tmp_path / 'data'}")
    with serving(*place, "--topic", "orders:3", "-t", "payments") as served:
        assert "created topic orders" in served.end()
    with serving(*place, "--topic", "orders:5") as served:
        consumer = KafkaConsumer(bootstrap_servers=served.bootstrap)
        partitions = {topic: consumer.partitions_for_topic(topic) for topic in consumer.topics()}
        consumer.close()
        assert "created topic orders" not in served.end()
    assert partitions == {"orders": {0, 1, 2}, "payments": {0}}


@pytest.mark.parametrize(
    "wrong", ["orders:0", "orders:x", "orders:", "orders:-1", "or ders", ":3", "__consumer_offsets"]
)
def test_a_wrong_topic_is_one_sentence(wrong: str, tmp_path: Path) -> None:
    code, errors = refused_here("--topic", wrong, "--set", ANY_PORT, "--set", f"log.dirs={tmp_path / 'data'}")
    assert code in (1, 2)
    assert "Error: " in errors


@pytest.mark.long
def test_processes_with_one_store_are_a_cluster(tmp_path: Path) -> None:
    def member(number: int, *args: str) -> list[str]:
        settings = {
            "node.id": number,
            "kqueue.cluster.store": f"sqlite:{tmp_path / 'cluster.db'}",
            "log.dirs": tmp_path / str(number),
            "broker.session.timeout.ms": 1000,
            "broker.heartbeat.interval.ms": 200,
        }
        pairs = [ANY_PORT, *(f"{name}={value}" for name, value in settings.items())]
        return [argument for pair in pairs for argument in ("--set", pair)] + list(args)

    def leaders(served: Served) -> set[int] | None:
        try:
            admin = KafkaAdminClient(bootstrap_servers=served.bootstrap)
        except KafkaError:
            return None  # it asked the broker that was killed
        try:
            (topic,) = admin.describe_topics(["orders"])
            return {partition["leader_id"] for partition in topic["partitions"]}
        except KafkaError:
            return None
        finally:
            admin.close()

    def await_leaders(served: Served, expected: set[int]) -> None:
        eventually(lambda: leaders(served) == expected, f"the leaders {expected}")

    with serving(*member(1, "--topic", "orders:2", "--set", "default.replication.factor=1")) as first:
        await_leaders(first, {1})
        with serving(*member(2, "--topic", "payments:2")) as second:
            await_leaders(second, {1})
            status, text = refused(*member(2, "--set", f"log.dirs={tmp_path / 'other'}"))
            assert status == 1
            assert "Error: node id 2 is in use: " in text
            first.process.kill()
            first.process.wait()
            await_leaders(second, {-1})
            with serving(*member(1)) as again:
                await_leaders(second, {1})
                end = again.end()
                assert end.rstrip().endswith("stopped")
            assert second.end().rstrip().endswith("stopped")
