"""ZooKeeper servers on loopback, one alone or an ensemble, in processes of their own.

The jars of ZooKeeper 3.8 come from Maven Central (`pom.xml`), once.
"""

from __future__ import annotations

import functools
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from compat_tests.kafka.maven import Jars, ToolFailed, java, java_missing
from compat_tests.kafka.node import free_ports

VERSION = "3.8.4"
TICK_MS = 100
START_TIMEOUT_S = 60
STOP_TIMEOUT_S = 30
HEAP = ("-Xms32m", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")
_JARS = Jars(
    what="ZooKeeper's jars",
    pom=Path(__file__).parent / "pom.xml",
    name=f"zookeeper-{VERSION}-libs",
    mark=f"zookeeper-{VERSION}.jar",
    variable="KQUEUE_ZOOKEEPER_LIBS",
)


@functools.cache
def missing() -> str | None:
    """Why ZooKeeper can't be run here; None: it can, once its jars are fetched."""
    return java_missing() or _JARS.missing()


@functools.cache
def libs() -> Path:
    """The folder with the jars; fetched the first time. Raises ToolFailed: that failed."""
    return _JARS.fetch()


class Server:
    """A server and its folder. `with server:` starts it, and kills it at the end.

    The ports stay the same as long as this object lives. Ticks of 100 ms, and sessions from 200 ms:
    the defaults of 2 s and 4 s would make every expiry a matter of seconds.

    Args:
        folder: for its data, its properties and `zookeeper.log`.
        id: its number in an ensemble; 0: it stands alone.
    """

    def __init__(self, folder: Path, id: int = 0, settings: Sequence[str] = ()) -> None:
        self.folder = folder
        self.id = id
        self.port, self.peer_port, self.election_port = free_ports(3)
        self.members: Sequence[Server] = ()
        self._settings = settings
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def log_file(self) -> Path:
        return self.folder / "zookeeper.log"

    def launch(self) -> None:
        """Start the process, and return before it serves."""
        assert self._process is None, "it runs"
        properties = self._write_properties()
        command = [
            java(),
            *HEAP,
            f"-Dlogback.configurationFile={Path(__file__).parent / 'logback.xml'}",
            "-cp",
            f"{libs()}/*",
            "org.apache.zookeeper.server.quorum.QuorumPeerMain",
            str(properties),
        ]
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def wait(self) -> None:
        """Return once it serves. Raises ToolFailed: it does not within START_TIMEOUT_S."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while not self.serves():
            assert self._process is not None, "it does not run"
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise ToolFailed(f"ZooKeeper did not start; {self.log_file}:\n{self.log_file.read_text()[-6000:]}")
            time.sleep(0.05)

    def start(self) -> Server:
        """Start, and return once it serves."""
        self.launch()
        self.wait()
        return self

    def serves(self) -> bool:
        """Whether it answers requests now: it stands alone, or belongs to a quorum."""
        said = self.command("srvr")
        return said.startswith("Zookeeper version") and "Mode:" in said

    def command(self, word: str) -> str:
        """The answer to a four-letter word; empty: it does not listen."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=5) as link:
                link.sendall(word.encode())
                return b"".join(iter(lambda: link.recv(65536), b"")).decode()
        except OSError:
            return ""

    def kill(self) -> None:
        """End it as a crash would; no effect if it does not run."""
        self._end(signal.SIGKILL)

    def pause(self) -> None:
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None, "it does not run"
        self._process.send_signal(number)

    def _end(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._signal(number)
            self._process.wait(STOP_TIMEOUT_S)
            self._process = None

    def __enter__(self) -> Server:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def _write_properties(self) -> Path:
        data = self.folder / "data"
        data.mkdir(parents=True, exist_ok=True)
        lines = [
            f"dataDir={data}",
            f"clientPort={self.port}",
            "clientPortAddress=127.0.0.1",
            f"tickTime={TICK_MS}",
            f"minSessionTimeout={2 * TICK_MS}",
            "maxSessionTimeout=60000",
            "maxClientCnxns=0",
            "admin.enableServer=false",
            "4lw.commands.whitelist=*",
            # of ticks: a member may take this long to come up, and to answer, on a busy machine
            "initLimit=300",
            "syncLimit=50",
            *self._settings,
        ]
        lines += [f"server.{one.id}=127.0.0.1:{one.peer_port}:{one.election_port}" for one in self.members]
        if self.members:
            (data / "myid").write_text(str(self.id))
        path = self.folder / "zookeeper.properties"
        path.write_text("\n".join(lines) + "\n")
        return path


class Ensemble:
    """Three servers. `with ensemble:` starts them, and kills them at the end."""

    def __init__(self, folder: Path, size: int = 3, settings: Sequence[str] = ()) -> None:
        self.servers = [Server(folder / f"server-{number}", number, settings) for number in range(1, size + 1)]
        for server in self.servers:
            server.members = self.servers

    @property
    def address(self) -> str:
        return ",".join(server.address for server in self.servers)

    def __enter__(self) -> Ensemble:
        try:
            for server in self.servers:
                server.launch()
            for server in self.servers:
                server.wait()
        except BaseException:
            self.kill()
            raise
        return self

    def kill(self) -> None:
        for server in self.servers:
            server.kill()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
