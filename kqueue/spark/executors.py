"""Checks the executors of a cluster before a job runs: their Python, and what they reach."""

from __future__ import annotations

import contextlib
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kqueue.base.version import __version__
from kqueue.spark.errors import PACK_HINT, PipelineFailed, error_summary
from kqueue.spark.pythons import is_local

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NEEDED = ("kqueue", "pyarrow", "pandas")
PROBES_MAX = 64
PROBE_TIMEOUT_S = 3.0
_NO_PROGRAM = re.compile(r'Cannot run program "([^"]+)"')
_VERSIONS = re.compile(r"Python in worker has different version:? (\S+) than that in driver:? (\d+\.\d+)")


class Looked(NamedTuple):
    """What a probe saw in one executor. `version`: of kqueue; None: it is not installed."""

    host: str
    python: str
    version: str | None
    missing: tuple[str, ...]
    unreachable: dict[str, str]
    unseen: tuple[str, ...]


def check_executors(
    spark: SparkSession, *, bootstrap: Iterable[str] = (), brokers: Iterable[str] = (), folders: Iterable[str] = ()
) -> None:
    """Check that executors can do a job; does nothing where they are threads of the driver.

    Args:
        bootstrap: HOST:PORT; one of them has to be reachable.
        brokers: HOST:PORT, as the brokers advertise themselves; all have to be reachable.
        folders: paths that executors have to see as the driver does. Of one that does not exist the
            nearest parent. URLs are left out.
    Raises: PipelineFailed: names what is missing, on which machine, and the remedy.
    """
    context = spark.sparkContext
    if is_local(context.master):
        return
    bootstrap, brokers = list(bootstrap), list(brokers)
    addresses = list(dict.fromkeys([*bootstrap, *brokers]))
    count = min(max(context.defaultParallelism, 2), PROBES_MAX)
    with _marked(folders) as marked:
        probe = _probe(NEEDED, addresses, list(marked), PROBE_TIMEOUT_S)
        try:
            found = [Looked(*one) for one in context.parallelize(range(count), count).map(probe).collect()]
        except Exception as error:
            raise PipelineFailed(_refused(str(error))) from None
    for one in found:
        _judge(one, bootstrap, brokers, marked)


def _probe(
    modules: Iterable[str], addresses: Iterable[str], files: Iterable[str], timeout_s: float
) -> Callable[[int], tuple[object, ...]]:
    """Return a function that travels to executors as code, because they may have no kqueue."""

    def look(_: int) -> tuple[object, ...]:
        import importlib.util
        import pathlib
        import socket
        import sys

        missing = tuple(name for name in modules if importlib.util.find_spec(name) is None)
        version = None
        if "kqueue" not in missing:
            from kqueue.base import version as installed

            version = installed.__version__
        unreachable = {}
        for address in addresses:
            host, _colon, number = address.rpartition(":")
            try:
                socket.create_connection((host.strip("[]"), int(number)), timeout=timeout_s).close()
            except OSError as error:
                unreachable[address] = error.strerror or str(error)
        unseen = tuple(file for file in files if not pathlib.Path(file).exists())
        return socket.gethostname(), sys.executable, version, missing, unreachable, unseen

    return look


@contextlib.contextmanager
def _marked(folders: Iterable[str]) -> Iterator[dict[str, str]]:
    """Yield a path for each folder that exists where the folder is the driver's, and the folder:
    what is in it already, else a file made for the block, else the folder itself.
    """
    with contextlib.ExitStack() as stack:
        found = {}
        for folder in folders:
            if "://" in folder:
                continue
            inside = next(Path(folder).iterdir(), None) if Path(folder).is_dir() else None
            if inside is not None:
                found[str(inside)] = folder
                continue
            there = next(parent for parent in (Path(folder), *Path(folder).parents) if parent.exists())
            try:
                file = stack.enter_context(tempfile.NamedTemporaryFile(dir=there, prefix=".kqueue-check-"))
            except OSError:
                found[str(there)] = folder
            else:
                found[file.name] = folder
        yield found


def _judge(one: Looked, bootstrap: list[str], brokers: list[str], marked: dict[str, str]) -> None:
    if one.missing:
        raise PipelineFailed(
            f"the executor on {one.host} runs {one.python}, which has no {', '.join(one.missing)}: {PACK_HINT}"
        )
    if one.version != __version__:
        raise PipelineFailed(
            f"the executor on {one.host} has kqueue {one.version}, and the driver has {__version__}: {PACK_HINT}"
        )
    if bootstrap and all(address in one.unreachable for address in bootstrap):
        reasons = "; ".join(f"{address}: {one.unreachable[address]}" for address in bootstrap)
        raise PipelineFailed(
            f"the executor on {one.host} reaches no broker ({reasons}): name the broker by an address that all "
            "machines of the cluster reach, with --bootstrap-server"
        )
    unreached = [f"{address} ({one.unreachable[address]})" for address in brokers if address in one.unreachable]
    if unreached:
        raise PipelineFailed(
            f"the executor on {one.host} does not reach {', '.join(unreached)}, as the broker calls itself: set "
            "the broker's advertised.listeners to an address that all machines of the cluster reach"
        )
    for file in one.unseen:
        raise PipelineFailed(
            f"the executor on {one.host} does not see {marked[file]} as the driver does: the folder has to be on a "
            "file system that all machines of the cluster share, under the same path"
        )


def _refused(text: str) -> str:
    """Return what to do about an error of Spark when it starts Python."""
    if no_program := _NO_PROGRAM.search(text):
        return (
            f"the executors can't run {no_program[1]}: {PACK_HINT}, or name the Python that has kqueue there by "
            "PYSPARK_PYTHON. An archive links to the Python that made its environment, which has to be on each "
            "machine under the same path (or another: `kqueue pipeline pack --python-prefix`)"
        )
    if versions := _VERSIONS.search(text):
        return f"the executors run Python {versions[1]}, and the driver {versions[2]}: {PACK_HINT}"
    return error_summary(ValueError(text))
