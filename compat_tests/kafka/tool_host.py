"""One JVM that runs many of Kafka's tools, and Java programs of these tests, one after another."""

from __future__ import annotations

import atexit
import base64
import contextlib
import functools
import queue
import shutil
import subprocess
import tempfile
import threading
from pathlib import Path
from typing import NamedTuple

from compat_tests.kafka import jvm
from compat_tests.kafka.maven import java, one_at_a_time

SOURCES = Path(__file__).parent / "java"
COMPILE_TIMEOUT_S = 90
TOOL_TIMEOUT_S = 60


class ToolResult(NamedTuple):
    """How a tool ended, and what it wrote."""

    status: int
    stdout: str
    stderr: str


@functools.cache
def missing() -> str | None:
    """Why the Java programs can't be compiled here; None: they can."""
    return jvm.missing() or (None if shutil.which(javac()) else "there is no javac")


def javac() -> str:
    """The compiler beside the `java` in use."""
    return java() + "c"


def compiled_programs() -> Path:
    """The folder of `java/*.java`, compiled by the first process that needs them. Raises
    ToolFailed.
    """
    sources = sorted(SOURCES.glob("*.java"))
    folder = jvm.kept("kafka-programs", "", *(source.read_bytes() for source in sources))
    with one_at_a_time(folder.parent):
        if not folder.exists():
            new = Path(tempfile.mkdtemp(prefix=folder.name, dir=folder.parent))
            _compile(sources, new)
            new.rename(folder)
    return folder


def _compile(sources: list[Path], folder: Path) -> None:
    options = ["-J-XX:TieredStopAtLevel=1", "-nowarn", "-cp", f"{jvm.libs()}/*", "-d", str(folder)]
    done = subprocess.run(
        [javac(), *options, *map(str, sources)],
        capture_output=True,
        text=True,
        timeout=COMPILE_TIMEOUT_S,
        check=False,
    )
    if done.returncode:
        raise jvm.ToolFailed(f"javac ended with {done.returncode}:\n{done.stdout}{done.stderr}")


@functools.cache
def tool_host() -> ToolHost:
    """The JVM of this process, which ends with it. Raises ToolFailed: the programs can't be
    compiled.
    """
    host = ToolHost(compiled_programs())
    atexit.register(host.close)
    return host


class ToolHost:
    """The JVM, which starts on first use. `programs`: the folder of the compiled programs."""

    def __init__(self, programs: Path) -> None:
        self._programs = programs
        self._process: subprocess.Popen[str] | None = None
        self._answers: queue.Queue[str] = queue.Queue()

    def run(self, main_class: str, *arguments: object, timeout_s: float = TOOL_TIMEOUT_S) -> ToolResult:
        """Run a class to its end; a status other than 0 is not an error here.

        Raises: ToolFailed: it did not end in time (the JVM is killed then), or the JVM ended.
        """
        process = self._start()
        assert process.stdin is not None
        words = ["=" + base64.b64encode(str(word).encode()).decode() for word in (main_class, *arguments)]
        try:
            process.stdin.write(" ".join(words) + "\n")
            process.stdin.flush()
            answer = self._answers.get(timeout=timeout_s)
        except (queue.Empty, OSError) as error:
            self.close()
            raise jvm.ToolFailed(f"{main_class} {' '.join(map(str, arguments))}: no end in {timeout_s} s") from error
        if not answer:
            self.close()
            raise jvm.ToolFailed(f"{main_class}: its JVM ended")
        status, *texts = answer.split()
        out, err = (base64.b64decode(text[1:]).decode("utf-8", "replace") for text in texts)
        return ToolResult(int(status), out, err)

    def _start(self) -> subprocess.Popen[str]:
        if self._process is None:
            # some tools leave admin clients behind, which warn that they reach no broker
            command = jvm.command("ToolHost", log_level="error", classpath=[self._programs])
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            )
            self._answers = queue.Queue()
            threading.Thread(target=self._read, args=(self._process, self._answers), daemon=True).start()
        return self._process

    @staticmethod
    def _read(process: subprocess.Popen[str], answers: queue.Queue[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            answers.put(line)
        answers.put("")

    def close(self) -> None:
        """End the JVM; the next tool starts another one."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout):
                with contextlib.suppress(OSError):
                    stream and stream.close()
