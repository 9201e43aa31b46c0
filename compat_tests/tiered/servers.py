"""Object stores on loopback, in processes of their own, and why there are none."""

from __future__ import annotations

import functools
import http.client
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from compat_tests.kafka.node import free_ports
from compat_tests.waits import eventually

LOOPBACK = "127.0.0.1"
BUCKET = "tiered-tests"
ACCESS_KEY = "kqueue-tests"
SECRET_KEY = "secret-of-these-tests"
BUILD_TIMEOUT_S = 900
REASON_CHARS_MAX = 300
GO_PROGRAMS = {
    "versitygw": "github.com/versity/versitygw/cmd/versitygw@v1.8.0",
}
MOTO = """
import sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address="127.0.0.1", port=int(sys.argv[1]), verbose=False)
server.start()
sys.stdin.read()
"""


def folder_of_programs() -> Path:
    """Return the folder that keeps built programs between runs."""
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(cache, "kqueue-tests")


@functools.cache
def go_program(name: str) -> Path | str:
    """Return a server in Go, built if it is not kept yet; or why it can't be had, as text."""
    module = GO_PROGRAMS[name]
    folder = folder_of_programs() / module.rpartition("@")[2] / name
    if (folder / name).exists():
        return folder / name
    if shutil.which("go") is None:
        return "there is no Go (no go on the path)"
    folder.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "GOBIN": str(folder)}
    try:
        done = subprocess.run(
            ["go", "install", module],
            env=environment,
            capture_output=True,
            text=True,
            timeout=BUILD_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"{module} was not built within {BUILD_TIMEOUT_S} s"
    if done.returncode:
        return f"{module} can't be built: {' '.join(done.stderr.split())[-REASON_CHARS_MAX:]}"
    return folder / name


class Server:
    """A server with one bucket, `BUCKET`. `with server:` starts it and ends it.

    The port stays the same, and what is on the disk too, when it is killed and started again.
    """

    name = ""
    checks_signatures = False
    options: Mapping[str, str] = {}

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="kqueue-tiered-"))
        self.port = free_ports(1)[0]
        self.process: subprocess.Popen[bytes] | None = None

    @classmethod
    def missing(cls) -> str | None:
        """Return why it can't be run here; None: it can."""
        raise NotImplementedError

    def command(self) -> list[str]:
        """Return how it is started."""
        raise NotImplementedError

    def make_bucket(self) -> None:
        """Make the bucket, in a server that runs."""
        raise NotImplementedError

    def url(self, prefix: str, *, port: int | None = None, **options: str) -> str:
        """Return the URL of a prefix of the bucket.

        Args: port: of a proxy before the server.
        """
        keys = {"access_key_id": ACCESS_KEY, "secret_access_key": SECRET_KEY, "region": "us-east-1", **options}
        endpoint = f"http://{LOOPBACK}:{port or self.port}"
        shown = "&".join(f"{name}={value}" for name, value in keys.items() if value)
        return f"s3://{BUCKET}/{prefix}?endpoint={endpoint}&{shown}"

    def start(self) -> None:
        self.process = subprocess.Popen(
            self.command(),
            cwd=self.folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        eventually(self._answers, f"{self.name} answers")

    def kill(self) -> None:
        """End the process at once."""
        if self.process is not None:
            assert self.process.stdin is not None
            self.process.stdin.close()
            self.process.kill()
            self.process.wait(30)
            self.process = None

    def __enter__(self) -> Server:
        self.start()
        self.make_bucket()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def request(self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None) -> int:
        """Send a request without a signature; return the status."""
        connection = http.client.HTTPConnection(LOOPBACK, self.port, timeout=10)
        try:
            connection.request(method, path, body, dict(headers or {}))
            return connection.getresponse().status
        finally:
            connection.close()

    def _answers(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, f"{self.name} has ended with {self.process.returncode}"
        try:
            self.request("GET", "/")
        except OSError:
            return False
        return True


class Moto(Server):
    """moto: objects in memory; no signature is looked at."""

    name = "moto"

    @classmethod
    def missing(cls) -> str | None:
        absent = [name for name in ("moto", "flask", "flask_cors") if importlib.util.find_spec(name) is None]
        return f"the package {absent[0]} is missing" if absent else None

    def command(self) -> list[str]:
        return [sys.executable, "-c", MOTO, str(self.port)]

    def make_bucket(self) -> None:
        assert self.request("PUT", f"/{BUCKET}") == 200


class Versity(Server):
    """versitygw: objects are files, conditions hold under locks, signatures are checked."""

    name = "versitygw"
    checks_signatures = True

    @classmethod
    def missing(cls) -> str | None:
        found = go_program("versitygw")
        if isinstance(found, str):
            return found
        # Without them it keeps ETags in files beside the objects, and a reader gets the ETag of one
        # put with the bytes of another.
        try:
            with tempfile.NamedTemporaryFile(prefix="kqueue-tiered-") as file:
                os.setxattr(file.name, "user.kqueue", b"1")
        except (OSError, AttributeError) as error:
            return f"{tempfile.gettempdir()} has no extended attributes ({error})"
        return None

    def command(self) -> list[str]:
        (self.folder / "buckets").mkdir(exist_ok=True)
        keys = ["--access", ACCESS_KEY, "--secret", SECRET_KEY]
        address = ["--port", f"{LOOPBACK}:{self.port}"]
        return [
            str(go_program("versitygw")),
            *address,
            *keys,
            "--quiet",
            "posix",
            str(self.folder / "buckets"),
        ]

    def make_bucket(self) -> None:
        (self.folder / "buckets" / BUCKET).mkdir(exist_ok=True)


KINDS: tuple[type[Server], ...] = (Moto, Versity)
