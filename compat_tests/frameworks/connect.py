"""Workers of Kafka Connect with the connectors for files: standalone, and distributed over REST."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from compat_tests.frameworks import jvm
from compat_tests.frameworks.running import Program
from compat_tests.kafka.node import free_ports

TOPIC = "lines"
REST_TIMEOUT_S = 10
SOURCE, SINK = (f"org.apache.kafka.connect.file.FileStream{kind}Connector" for kind in ("Source", "Sink"))
WORKER: Mapping[str, object] = {
    "plugin.discovery": "service_load",
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.storage.StringConverter",
    "offset.flush.interval.ms": 500,
    "consumer.auto.offset.reset": "earliest",
    "consumer.session.timeout.ms": 6000,
    "consumer.heartbeat.interval.ms": 1000,
}


def write_properties(path: Path, settings: Mapping[str, object]) -> str:
    """Write a file of settings, and return its path."""
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    return str(path)


def source(file: Path, **settings: object) -> dict[str, object]:
    """Return the settings of a connector that sends each line of a file."""
    own = {name.replace("_", "."): value for name, value in settings.items()}
    return {"name": "reading", "connector.class": SOURCE, "tasks.max": 1, "file": file, "topic": TOPIC, **own}


def sink(file: Path) -> dict[str, object]:
    """Return the settings of a connector that writes each record to a file."""
    return {"name": "writing", "connector.class": SINK, "tasks.max": 1, "file": file, "topics": TOPIC}


def standalone(bootstrap: str, folder: Path, *connectors: Mapping[str, object]) -> Program:
    """Return a standalone worker with its connectors; its offsets are in a file of `folder`."""
    folder.mkdir()
    worker = {
        **WORKER,
        "bootstrap.servers": bootstrap,
        "offset.storage.file.filename": folder / "offsets",
        "listeners": f"http://127.0.0.1:{free_ports(1)[0]}",
    }
    files = [write_properties(folder / "worker.properties", worker)]
    files += [write_properties(folder / f"{one['name']}.properties", one) for one in connectors]
    return Program(jvm.command("org.apache.kafka.connect.cli.ConnectStandalone", *files), folder)


class DistributedWorker(Program):
    """A worker of a group of one, whose state is in three topics; connectors are made over REST."""

    def __init__(self, bootstrap: str, folder: Path) -> None:
        self._url = f"http://127.0.0.1:{free_ports(1)[0]}"
        folder.mkdir()
        worker = {
            **WORKER,
            "bootstrap.servers": bootstrap,
            "group.id": "connect",
            "session.timeout.ms": 6000,
            "heartbeat.interval.ms": 1000,
            "exactly.once.source.support": "enabled",
            "listeners": self._url,
            **{f"{kind}.storage.topic": f"connect-{kind}" for kind in ("config", "offset", "status")},
            **{f"{kind}.storage.replication.factor": 1 for kind in ("config", "offset", "status")},
            "offset.storage.partitions": 2,
            "status.storage.partitions": 2,
        }
        properties = write_properties(folder / "worker.properties", worker)
        super().__init__(jvm.command("org.apache.kafka.connect.cli.ConnectDistributed", properties), folder)

    def create(self, connector: Mapping[str, object]) -> None:
        """Create a connector, once the worker serves."""
        name = connector["name"]
        body = {key: str(value) for key, value in connector.items() if key != "name"}
        self.wait_until(lambda: self._call("PUT", f"/connectors/{name}/config", body) is not None, f"connector {name}")

    def _call(self, method: str, path: str, body: object = None) -> Any:
        """Return the answer; None: an error, or there is none."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self._url + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=REST_TIMEOUT_S) as answer:
                return json.load(answer)
        except (urllib.error.URLError, OSError):
            return None
