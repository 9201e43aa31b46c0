"""The frameworks in Java: their jars, fetched once, and the command lines that run them."""

from __future__ import annotations

import functools
import shutil
import subprocess
from pathlib import Path

from compat_tests.kafka.jvm import OPTIONS
from compat_tests.kafka.maven import Jars, ToolFailed, java, java_missing

VERSION = "4.3.0"
COMPILE_TIMEOUT_S = 120
_HERE = Path(__file__).parent
JARS = Jars(
    what="Kafka Streams and Connect",
    pom=_HERE / "pom.xml",
    name=f"frameworks-{VERSION}-libs",
    mark=f"connect-mirror-{VERSION}.jar",
    variable="KQUEUE_FRAMEWORK_LIBS",
)


@functools.cache
def missing() -> str | None:
    """Return why the frameworks can't be run here; None: they can, once the jars are fetched."""
    return java_missing() or JARS.missing() or (None if shutil.which(java() + "c") else "there is no javac")


def compile_programs(folder: Path) -> Path:
    """Compile `java/*.java` into `folder` and return it. Raises: ToolFailed."""
    sources = [str(source) for source in sorted((_HERE / "java").glob("*.java"))]
    command = [java() + "c", "-J-XX:TieredStopAtLevel=1", "-cp", f"{JARS.fetch()}/*", "-d", str(folder), *sources]
    done = subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_TIMEOUT_S, check=False)
    if done.returncode:
        raise ToolFailed(f"javac ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return folder


def command(main_class: str, *arguments: str, programs: Path | None = None) -> list[str]:
    """Return the command line that runs a class of a framework, or one in the folder `programs`."""
    classpath = f"{JARS.fetch()}/*" + (f":{programs}" if programs else "")
    logging = ["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Dorg.slf4j.simpleLogger.showDateTime=true"]
    return [java(), *OPTIONS, *logging, "-cp", classpath, main_class, *arguments]
