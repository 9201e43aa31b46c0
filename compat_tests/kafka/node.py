"""One Kafka node, controller and broker in one process, on a folder of its own."""

from __future__ import annotations

import base64
import contextlib
import random
import re
import shutil
import socket
import subprocess
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO

from compat_tests.kafka import jvm
from compat_tests.kafka.maven import one_at_a_time

START_TIMEOUT_S = 120
STOP_TIMEOUT_S = 120
STARTED = "Kafka Server started"
NODE_ID = 1

SETTINGS: Mapping[str, object] = {
    "process.roles": "broker,controller",
    "node.id": NODE_ID,
    "controller.listener.names": "CONTROLLER",
    "offsets.topic.replication.factor": 1,
    "offsets.topic.num.partitions": 4,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "transaction.state.log.num.partitions": 2,
    "share.coordinator.state.topic.replication.factor": 1,
    "share.coordinator.state.topic.min.isr": 1,
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": 0,
    # what was acknowledged is on the disk, too, when the process is killed
    "log.flush.interval.messages": 1,
    # the records of these tests are years old
    "log.retention.ms": -1,
    "log.retention.check.interval.ms": 1000,
    # the cleaner is quick, and takes little memory
    "log.cleaner.threads": 1,
    "log.cleaner.backoff.ms": 100,
    "log.cleaner.dedupe.buffer.size": 4 * 1024 * 1024,
    "log.cleaner.io.buffer.size": 256 * 1024,
    "log.segment.delete.delay.ms": 1000,
    "log.initial.task.delay.ms": 100,
    # one core and a small heap will do
    "num.network.threads": 1,
    "num.io.threads": 2,
    "background.threads": 2,
    # a node that was killed may register again soon, and a slow one is not fenced
    "broker.session.timeout.ms": 10_000,
    "broker.heartbeat.interval.ms": 500,
}


def free_ports(count: int) -> list[int]:
    """Ports that are free now, below those that systems hand out by themselves, so that they are
    still free at a later start.
    """
    ports: list[int] = []
    while len(ports) < count:
        port = random.randrange(20_000, 30_000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        if port not in ports:
            ports.append(port)
    return ports


def new_cluster_id() -> str:
    """An id that no other cluster has, as Kafka writes it."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")


@dataclass
class Kafka:
    """A node and its data folder, in `place`. `with node:` starts it and stops it cleanly; `kill`
    stops it as a crash would.

    The ports stay the same as long as this object lives. Its log is `place/kafka.log`; pytest keeps
    the folder of a failed test. `defaults` are those of tests, and so are the JVM's `options`.
    """

    place: Path
    settings: Mapping[str, object] = field(default_factory=dict)
    ports: list[int] = field(default_factory=lambda: free_ports(2))
    defaults: Mapping[str, object] = field(default_factory=lambda: SETTINGS)
    options: Sequence[str] = jvm.OPTIONS
    _process: subprocess.Popen[bytes] | None = None
    _log: IO[bytes] | None = None

    @property
    def data(self) -> Path:
        """What `log.dirs` names."""
        return self.place / "data"

    @property
    def log_file(self) -> Path:
        return self.place / "kafka.log"

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.ports[0]}"

    def partition(self, topic: str, partition: int = 0) -> Path:
        """The folder of a partition."""
        return self.data / f"{topic}-{partition}"

    @property
    def pid(self) -> int:
        """Its process, which must run."""
        assert self._process is not None
        return self._process.pid

    def format(self, cluster_id: str | None = None, *options: str) -> None:
        """Make the data folder, as `kafka-storage format` does.

        Args: cluster_id: of the cluster whose member it will be; None: it is a cluster of its own.
            options: of the command, if it is a member.
        """
        self.place.mkdir(parents=True, exist_ok=True)
        jvm.run(
            "kafka.tools.StorageTool",
            "format",
            *(options if cluster_id else ("--standalone",)),
            f"--cluster-id={cluster_id or new_cluster_id()}",
            "-c",
            str(self._write_properties()),
        )

    def copy_from(self, template: Kafka) -> Kafka:
        """Take over the folder and the ports of another node that is stopped; its metadata names
        the ports. If that was never started, this one is a cluster of its own: brokers in one
        process take folders of one cluster for copies, and raise their epochs.
        """
        self.ports = template.ports
        shutil.copytree(template.data, self.data)
        if not any(self.data.glob("__cluster_metadata-0/*.log")):
            file = self.data / "meta.properties"
            text, count = re.subn(r"(?m)^cluster\.id=.*$", f"cluster.id={new_cluster_id()}", file.read_text())
            assert count == 1, text
            file.write_text(text)
        return self

    def start(self, *options: str) -> Kafka:
        """Start, and return once it serves. `options`: of the JVM, beside its own.

        Raises ToolFailed: it does not within START_TIMEOUT_S; the message has the end of its log.
        """
        assert self._process is None, "it runs"
        self._log = self.log_file.open("ab")
        begin = self._log.tell()
        command = jvm.command("kafka.Kafka", str(self._write_properties()), log_level="info", options=self.options)
        command[1:1] = options
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log)
        deadline = time.monotonic() + START_TIMEOUT_S
        while STARTED not in self.said(begin):
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise jvm.ToolFailed(f"Kafka did not start; the end of {self.log_file}:\n{self.said()[-6000:]}")
            time.sleep(0.02)
        return self

    def stop(self) -> None:
        """Stop cleanly. Raises ToolFailed: it does not end, and is killed then."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise jvm.ToolFailed(f"Kafka did not stop within {STOP_TIMEOUT_S} s; see {self.log_file}") from None
        self._ended()

    def kill(self) -> None:
        """End it as kill -9 does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._ended()

    def _ended(self) -> None:
        self._process = None
        if self._log is not None:
            self._log.close()

    def __enter__(self) -> Kafka:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.stop()
        else:
            self.kill()

    def said(self, begin: int = 0) -> str:
        """Its log, from this position on."""
        with self.log_file.open("rb") as file:
            file.seek(begin)
            return file.read().decode("utf-8", "replace")

    def complaints(self) -> list[str]:
        """The lines of its log that are errors, each with the line after it, which has the cause.

        Without those of a controller that registers before it is the leader of its quorum: Kafka
        repeats the registration, and some starts log the first refusal as an error. Without those
        of groups that it had not loaded yet when it was stopped, without its retention that begins
        while its cleaner is at the same partition, and without those that only say how slow the
        machine is.
        """
        lines = self.said().splitlines()
        errors = [f"{line}: {cause}" for line, cause in zip(lines, [*lines[1:], ""], strict=True) if " ERROR " in line]
        harmless = (
            "apiKey=CONTROLLER_REGISTRATION",
            "RegistrationResponseHandler: channel manager timed out before sending the request",
            "due to Stopped loading records from __consumer_offsets",
            "cannot be resumed since it is not paused",
            "Exceptionally slow controller event",
            "controller event queue overloaded. Timed out heartbeat",
        )
        return [line for line in errors if not any(words in line for words in harmless)]

    def _write_properties(self) -> Path:
        broker, controller = (
            f"{name}://127.0.0.1:{port}" for name, port in zip(("PLAINTEXT", "CONTROLLER"), self.ports, strict=True)
        )
        own = {
            "log.dirs": self.data,
            "listeners": f"{broker},{controller}",
            "advertised.listeners": broker,
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{self.ports[1]}",
        }
        properties = {**self.defaults, **own, **self.settings}
        path = self.place / "server.properties"
        path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        return path


def archive_classes(template: Kafka, folder: Path) -> None:
    """Make the file of `jvm.class_archive` where it is missing, by a node that starts and stops in
    a new folder. A Java that was built without such an archive of its own classes makes none.
    `template`: a formatted node to copy.
    """
    archive = jvm.class_archive()
    with one_at_a_time(archive.parent), contextlib.suppress(jvm.ToolFailed, FileNotFoundError):
        if not archive.exists():
            node = Kafka(folder).copy_from(template)
            new = archive.with_suffix(".new")
            node.start(f"-XX:ArchiveClassesAtExit={new}")
            node.stop()
            new.rename(archive)
