"""PostgreSQL servers on loopback, in processes of their own: Debian's package, or what is on PATH.

PostgreSQL refuses to run as root; the servers then run as the user `postgres`, or `nobody`.
"""

from __future__ import annotations

import functools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import psycopg

from compat_tests.kafka.node import free_ports

PROGRAMS = ("initdb", "postgres", "pg_basebackup")
START_TIMEOUT_S = 60
STOP_TIMEOUT_S = 30
_OPTIONS: Mapping[str, str] = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "shared_buffers": "16MB",
    "max_connections": "60",
    "max_wal_senders": "4",
    "log_min_messages": "warning",
}


@functools.cache
def programs() -> Path | None:
    """The folder with PostgreSQL's programs, that of the newest version; None: there is none."""
    for folder in _folders():
        if all((folder / name).exists() for name in PROGRAMS):
            return folder
    return None


def _folders() -> Iterator[Path]:
    versions = Path("/usr/lib/postgresql").glob("*/bin")
    yield from sorted(versions, key=lambda path: -int(path.parent.name) if path.parent.name.isdigit() else 0)
    found = shutil.which("initdb")
    if found is not None:
        yield Path(found).resolve().parent


@functools.cache
def missing() -> str | None:
    """Why PostgreSQL can't be run here; None: it can."""
    if programs() is None:
        return f"there is no PostgreSQL (Debian's package postgresql): {', '.join(PROGRAMS)} are looked for"
    if _user() is None and os.getuid() == 0:
        return "PostgreSQL refuses root, and there is neither a user postgres nor nobody"
    return None


@functools.cache
def _user() -> pwd.struct_passwd | None:
    """The user that runs the servers; None: this one."""
    if os.getuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    return None


class Server:
    """A server and its folder. `with server:` starts it, and ends it, and deletes its folder.

    The port stays the same as long as this object lives.

    Args:
        options: of `postgresql.conf`, beside those of all.
        primary: a running server; this one begins as its standby.
    """

    def __init__(self, options: Mapping[str, str] | None = None, primary: Server | None = None) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="kqueue-postgres-"))
        self.data = self.folder / "data"
        (self.port,) = free_ports(1)
        self._options = dict(options or {})
        self._process: subprocess.Popen[bytes] | None = None
        user = _user()
        if user is not None:
            os.chown(self.folder, user.pw_uid, user.pw_gid)
        if primary is None:
            self._run("initdb", "-D", self.data, "-U", "kqueue", "-A", "trust", "-E", "UTF8", "--locale=C", "-N")
        else:
            source = f"host=127.0.0.1 port={primary.port} user=kqueue application_name=standby"
            self._run("pg_basebackup", "-D", self.data, "-d", source, "-R", "-X", "stream", "-c", "fast")

    @property
    def address(self) -> str:
        return f"postgresql://kqueue@127.0.0.1:{self.port}/postgres"

    @property
    def log_file(self) -> Path:
        return self.folder / "postgres.log"

    @property
    def process_id(self) -> int:
        assert self._process is not None, "it does not run"
        return self._process.pid

    def add_options(self, **options: str) -> None:
        """Set options for the next start."""
        self._options.update(options)

    def give(self, name: str, content: bytes) -> Path:
        """Write a file that the server's user alone may read; return its path."""
        path = self.folder / name
        path.write_bytes(content)
        path.chmod(0o600)
        user = _user()
        if user is not None:
            os.chown(path, user.pw_uid, user.pw_gid)
        return path

    def start(self) -> Server:
        """Start, and return once it answers."""
        assert self._process is None, "it runs"
        folder = _folder()
        options = {**_OPTIONS, "port": str(self.port), **self._options}
        pairs = [text for name, value in options.items() for text in ("-c", f"{name}={value}")]
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                [folder / "postgres", "-D", self.data, *pairs],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                **_identity(),
            )
        deadline = time.monotonic() + START_TIMEOUT_S
        while not self.answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise AssertionError(f"PostgreSQL did not start:\n{self.log_file.read_text()[-6000:]}")
            time.sleep(0.05)
        return self

    def answers(self) -> bool:
        try:
            self.run("SELECT 1")
        except psycopg.Error:
            return False
        return True

    def run(self, statement: str) -> list[tuple[object, ...]]:
        """Run a statement as the superuser; return its rows."""
        address = f"{self.address}?connect_timeout=5&application_name=test"
        with psycopg.connect(address, autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description is not None else []

    def kill(self) -> None:
        """End all its processes as a crash does; no effect if it does not run."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """End it at once, in order."""
        self._end(signal.SIGINT)

    def pause(self) -> None:
        """Stop all its processes, as a machine that hangs."""
        os.killpg(self.process_id, signal.SIGSTOP)
        for number in self._backends():
            os.kill(number, signal.SIGSTOP)

    def resume(self) -> None:
        for number in self._backends():
            os.kill(number, signal.SIGCONT)
        os.killpg(self.process_id, signal.SIGCONT)

    def promote(self) -> None:
        """Make a standby the primary."""
        self.run("SELECT pg_promote()")

    def _backends(self) -> list[int]:
        """The processes of the server, each in a process group of its own."""
        found = subprocess.run(["pgrep", "-P", str(self.process_id)], capture_output=True, text=True, check=False)
        return [int(number) for number in found.stdout.split()]

    def _end(self, number: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if number == signal.SIGKILL:  # the others hold the shared memory until they notice
            children = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True, check=False)
            process.kill()
            for child in children.stdout.split():
                try:
                    os.kill(int(child), signal.SIGKILL)
                except ProcessLookupError:
                    continue
        else:
            process.send_signal(number)
        process.wait(STOP_TIMEOUT_S)

    def _run(self, program: str, *arguments: object) -> None:
        command = [str(_folder() / program), *map(str, arguments)]
        done = subprocess.run(
            command, cwd=self.folder, capture_output=True, text=True, check=False, timeout=120, **_identity()
        )
        assert done.returncode == 0, f"{program} failed:\n{done.stdout}{done.stderr}"

    def __enter__(self) -> Server:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


def _folder() -> Path:
    folder = programs()
    assert folder is not None, missing()
    return folder


def _identity() -> dict[str, Any]:
    user = _user()
    own: dict[str, Any] = {"start_new_session": True}
    return own if user is None else {**own, "user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
