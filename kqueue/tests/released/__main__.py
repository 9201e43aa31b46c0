"""`python -m kqueue.tests.released NAME`: makes the data folder of a version, and keeps it.

`--source FOLDER` is a checkout of that version; without it this one. A release runs it.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import lzma
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

from kqueue.base.clock import wall_ms
from kqueue.client import Client
from kqueue.demo.broker_processes import BrokerProcess, free_ports
from kqueue.tests.released import DATA, FOLDER, SERVED
from kqueue.tests.released.contents import describe, fill
from kqueue.tests.source_tree import ROOT

SETTINGS = {"offsets.topic.num.partitions": 2, "transaction.state.log.num.partitions": 2}
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


@contextlib.contextmanager
def serving(source: Path, broker: BrokerProcess) -> Iterator[Client]:
    """Serve by the code of a checkout, and stop cleanly at the end."""
    with contextlib.chdir(source):  # where `python -m` looks first
        broker.start()
    try:
        with Client(broker.bootstrap) as client:
            yield client
        broker.stop()
    finally:
        broker.kill()


def settings_of(source: Path) -> dict[str, object]:
    """Return the settings of a broker of this source, which may have no authorizer yet."""
    return SETTINGS | (AUTHORIZER if (source / "kqueue" / "security").is_dir() else {})


def keep(name: str, source: Path, folder: Path = FOLDER) -> None:
    """Fill a data folder by the code of a checkout, and keep it with what is served of it."""
    with tempfile.TemporaryDirectory() as work:
        (port,) = free_ports(1)
        broker = BrokerProcess(1, Path(work), port, settings_of(source))
        with serving(source, broker) as client:
            fill(client, wall_ms())
        # What was read from memory may differ from what is on the disk.
        with serving(source, broker) as client:
            contents = describe(client)
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as tar:
            tar.add(broker.data, "data", filter=_without_owner)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}{DATA}").write_bytes(lzma.compress(buffer.getvalue(), preset=9))
    (folder / f"{name}{SERVED}").write_bytes(lzma.compress(json.dumps(contents).encode(), preset=9))


def _without_owner(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m kqueue.tests.released", description=__doc__)
    parser.add_argument("name", help="the version, as it is in kqueue.base.version")
    parser.add_argument("--source", type=Path, default=ROOT, help="a checkout of the version")
    parser.add_argument("--to", type=Path, default=FOLDER, help="the folder to keep it in")
    options = parser.parse_args()
    keep(options.name, options.source.resolve(), options.to)


if __name__ == "__main__":
    main()
