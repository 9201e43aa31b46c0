"""Checks the executors of a cluster before a job runs: their Python, and what they reach."""

from __future__ import annotations

import contextlib
import json
import re
import tempfile
import uuid
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from kqueue.base.version import __version__
from kqueue.spark.errors import JAVA_ENDED, PACK_HINT, PipelineFailed, error_summary, is_java_lost
from kqueue.spark.pythons import is_local
from kqueue.spark.reachability import CONNECT_TIMEOUT_S, unreached_brokers
from kqueue.spark.remote import is_remote
from kqueue.spark.stores.s3 import server_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from kqueue.spark.stores import Location

NEEDED = ("kqueue", "pyarrow", "pandas")
PROBES_MAX = 64
SERVER_HINT = (
    "install this version of kqueue, with its extra `spark`, for the Python that the server of Spark Connect and its "
    "executors run (PYSPARK_PYTHON when it starts), and start the server again"
)
_NO_PROGRAM = re.compile(r'Cannot run program "([^"]+)"')
_VERSIONS = re.compile(r"Python in worker has different version:? (\S+) than that in driver:? (\d+\.\d+)")


Probe = Callable[[int], tuple[Any, ...]]


class Looked(NamedTuple):
    """The report of a probe in one executor. `version`: of kqueue; None: it is not installed.
    `unwritable`: folders of the driver that the executor sees and may not write to.
    """

    host: str
    python: str
    version: str | None
    missing: tuple[str, ...]
    unreachable: dict[str, str]
    unseen: tuple[str, ...]
    unwritable: tuple[str, ...] = ()


def check_executors(
    spark: SparkSession,
    *,
    bootstrap: Iterable[str] = (),
    brokers: Iterable[str] = (),
    folders: Iterable[str] = (),
    place: Location | None = None,
    is_written: bool = True,
) -> None:
    """Check that executors can do a job; does nothing where they are threads of this program.

    Args:
        bootstrap: HOST:PORT; one of them has to be reachable.
        brokers: HOST:PORT, as the brokers advertise themselves; all have to be reachable.
        folders: paths that executors have to see as the driver does. Of one that does not exist the
            nearest parent. URLs are left out; for one of an object store executors need obstore.
        place: where results are: a folder as those, or an object store, whose server has to be
            reachable if one is named, and for which executors need obstore.
        is_written: executors write to `place`, and may have to be users that can.
    Raises: PipelineFailed: names what is missing, on which machine, and the remedy.
    """
    remote = is_remote(spark)
    if not remote and is_local(spark.sparkContext.master):
        return
    bootstrap, brokers, folders = list(bootstrap), list(brokers), list(folders)
    server = None if place is None else server_of(place)
    needed = needed_modules(folders, has_server=server is not None)
    addresses = list(dict.fromkeys([*bootstrap, *brokers, *([server] if server else [])]))
    places = [] if place is None else [place.url]
    written = places if is_written else []
    with _marked([*folders, *places]) as marked, _made(written) as made:
        marked |= made
        probe = _probe(needed, addresses, list(marked), list(made), CONNECT_TIMEOUT_S)
        try:
            executors = _ask_by_query(spark, probe) if remote else _ask(spark, probe)
        except Exception as error:
            raise PipelineFailed(JAVA_ENDED if is_java_lost(error) else _refused(str(error))) from None
    for one in executors:
        _judge(one, bootstrap, brokers, marked, SERVER_HINT if remote else PACK_HINT)
        if server in one.unreachable:
            raise PipelineFailed(
                f"the executor on {one.host} does not reach the object store at {server} ({one.unreachable[server]}): "
                "name it by an address that all machines of the cluster reach, with --s3-endpoint"
            )


def needed_modules(folders: Iterable[str], *, has_server: bool) -> tuple[str, ...]:
    """Return the modules that executors need. Args: has_server: results go to an object store."""
    is_tier_read = any("://" in folder and not folder.startswith("file:") for folder in folders)
    return (*NEEDED, "obstore") if is_tier_read or has_server else NEEDED


def _ask(spark: SparkSession, probe: Probe) -> list[Looked]:
    context = spark.sparkContext
    count = min(max(context.defaultParallelism, 2), PROBES_MAX)
    return [Looked(*one) for one in context.parallelize(range(count), count).map(probe).collect()]


def _ask_by_query(spark: SparkSession, probe: Probe) -> list[Looked]:
    """Ask as `_ask`, without a Spark context."""

    def answer(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import json

        import pyarrow

        if any(batch.num_rows for batch in batches):
            yield pyarrow.RecordBatch.from_pydict({"seen": [json.dumps(probe(0))]})

    rows = spark.range(PROBES_MAX).mapInArrow(answer, "seen string").collect()
    return [Looked(*json.loads(row.seen)) for row in rows]


def _probe(
    modules: Iterable[str], addresses: Iterable[str], files: Iterable[str], written: Iterable[str], timeout_s: float
) -> Probe:
    """Return a function that travels to executors as code, because they may have no kqueue."""

    def look(_: int) -> tuple[Any, ...]:
        import importlib.util
        import os
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
        unwritable = tuple(file for file in written if file not in unseen and not os.access(file, os.W_OK | os.X_OK))
        return socket.gethostname(), sys.executable, version, missing, unreachable, unseen, unwritable

    return look


@contextlib.contextmanager
def _marked(folders: Iterable[str]) -> Iterator[dict[str, str]]:
    """Yield a path for each folder that exists where the folder is the driver's, and the folder:
    what is in it already, else a file made for the block, else the folder itself.
    """
    with contextlib.ExitStack() as stack:
        paths = {}
        for folder in folders:
            if "://" in folder:
                continue
            inside = next(Path(folder).iterdir(), None) if Path(folder).is_dir() else None
            if inside is not None:
                paths[str(inside)] = folder
                continue
            there = next(parent for parent in (Path(folder), *Path(folder).parents) if parent.exists())
            try:
                file = stack.enter_context(tempfile.NamedTemporaryFile(dir=there, prefix=".kqueue-check-"))
            except OSError:
                paths[str(there)] = folder
            else:
                paths[file.name] = folder
        yield paths


@contextlib.contextmanager
def _made(folders: Iterable[str]) -> Iterator[dict[str, str]]:
    """Yield a path for each folder that is to be written, and the folder: of a new folder where it
    is, or is to be, with the rights of those that jobs make. Removed after the block.
    """
    with contextlib.ExitStack() as stack:
        paths = {}
        for folder in folders:
            if "://" in folder:
                continue
            there = next(parent for parent in (Path(folder), *Path(folder).parents) if parent.exists())
            made = there / f".kqueue-check-{uuid.uuid4().hex}"
            with contextlib.suppress(OSError):  # the job itself will say that it can't write there
                made.mkdir()
                stack.callback(made.rmdir)
                paths[str(made)] = folder
        yield paths


def _judge(
    one: Looked, bootstrap: list[str], brokers: list[str], marked: dict[str, str], hint: str = PACK_HINT
) -> None:
    if one.missing:
        raise PipelineFailed(
            f"the executor on {one.host} runs {one.python}, which has no {', '.join(one.missing)}: {hint}"
        )
    if one.version != __version__:
        raise PipelineFailed(
            f"the executor on {one.host} has kqueue {one.version}, and this program has {__version__}: {hint}"
        )
    if bootstrap and all(address in one.unreachable for address in bootstrap):
        reasons = "; ".join(f"{address}: {one.unreachable[address]}" for address in bootstrap)
        raise PipelineFailed(
            f"the executor on {one.host} reaches no broker ({reasons}): name the broker by an address that all "
            "machines of the cluster reach, with --bootstrap-server"
        )
    unreached = {address: one.unreachable[address] for address in brokers if address in one.unreachable}
    if unreached:
        raise PipelineFailed(unreached_brokers(f"the executor on {one.host}", unreached))
    for file in one.unseen:
        raise PipelineFailed(
            f"the executor on {one.host} does not see {marked[file]} as the driver does: the folder has to be on a "
            "file system that all machines of the cluster share, under the same path"
        )
    for file in one.unwritable:
        raise PipelineFailed(
            f"the executor on {one.host} may not write to folders that the driver makes in {marked[file]}: have "
            "executors run as the driver's user, or both in one group, the folder owned by it (chmod g+ws), and start "
            "the driver with `umask 002`"
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
