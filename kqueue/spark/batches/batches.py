"""The protocol of whole batches. It needs no atomic rename, so object stores will do.

HOME/.staging/00000008-ATTEMPT/…   1. files of an attempt to write batch 8; no reader looks here
HOME/.staging/00000008/batch.json  2. the decision: this attempt is batch 8; put if absent
DATA/…                             3. its files are moved, each one whole
    4. the log of the table's format, if it has one, takes the files in one commit
HOME/batches/00000008.json         5. the manifest, written last: readers list these
    6. the decision and the staged files of batches up to 8 are deleted

A kill before 2 costs the work of the batch: the next run writes it again. After 2 the next run does
the rest, and all of it can be repeated. Readers of manifests see a batch whole or not at all.
Readers that list DATA never see a record twice or half a file; from 2 to 5 they may see part of a
batch, except of a folder per batch where the store renames folders at once.

Mounted folders have a lock. Elsewhere two writers of a number differ in step 2: the second finds
the decision, or the manifest, which is there before a decision is deleted. A decision of a number
that has a manifest is void. Nobody deletes staged files of later numbers: another writer may be
about to decide them. They remain until the batch of their number is whole.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from kqueue.spark.errors import PipelineFailed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from kqueue.spark.stores import Store

BATCHES, STAGING, DECISION = "batches", ".staging", "batch.json"
VERSION = 1


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch. files: below DATA. about: what else its writer tells, as JSON."""

    number: int
    rows: int
    files: tuple[str, ...]
    about: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self, **more: object) -> bytes:
        """Return the text of its manifest."""
        told = {"version": VERSION, "batch": self.number, **self.about, "rows": self.rows, "files": self.files}
        return json.dumps({**told, **more}, indent=1).encode()


@dataclass(frozen=True, slots=True)
class Staged:
    """The files of an attempt. folder: of the store. names: below it. rows: in all of them."""

    number: int
    folder: str
    names: tuple[str, ...]
    rows: int


class TableLog(Protocol):
    """The log of a table's format."""

    def commit(self, batch: int, files: Sequence[str]) -> None:
        """Add files, below the table's folder, as a batch; nothing if the batch is there."""


class Batches:
    """The batches of one archive or table.

    Args:
        data: the folder of the files. home: that of decisions and manifests.
        folder_each: each batch has a folder, ``batch=8``; else the number is in files' names.
        log: takes each batch before its manifest.
    Thread: one at a time.
    """

    def __init__(
        self, store: Store, data: str, home: str = "", *, folder_each: bool = False, log: TableLog | None = None
    ) -> None:
        self.store = store
        self.data = data
        self._home = f"{home}/" if home else ""
        self._folder_each = folder_each
        self._log = log

    def numbers(self) -> list[int]:
        """Return the numbers of all whole batches, ascending."""
        names = (name for name in self.store.names(self._home + BATCHES) if name.endswith(".json"))
        return sorted(int(name.removesuffix(".json")) for name in names)

    def read(self, number: int) -> Batch | None:
        """Return a whole batch; None: it is not there."""
        path = self._manifest(number)
        text = self.store.read(path)
        return None if text is None else _parsed(text, self.store.of(path))[0]

    def last(self) -> Batch | None:
        """Return the newest whole batch."""
        numbers = self.numbers()
        return self.read(numbers[-1]) if numbers else None

    def recover(self, number: int) -> Batch | None:
        """Do the rest of a batch that an interrupted run has decided.

        Returns: the batch; None: it is not decided.
        """
        if self.has(number):
            return None
        text = self.store.read(self._decision(number))
        if text is None:
            return None
        batch, attempt = _parsed(text, self.store.of(self._decision(number)))
        self._publish(batch, attempt)
        return batch

    def has(self, number: int) -> bool:
        """Return whether a batch is whole."""
        return self.store.exists(self._manifest(number))

    def recover_all(self) -> None:
        """Do the rest of all batches that interrupted runs have decided."""
        for name in self.store.names(self._home + STAGING):
            folder, _, file = name.partition("/")
            if file == DECISION and folder.isdigit():
                self.recover(int(folder))

    def stage(self, frame: DataFrame, number: int, by: Sequence[str], codec: str = "snappy") -> Staged:
        """Write the files of a batch where no reader looks."""
        folder = f"{self._home}{STAGING}/{batch_name(number)}-{uuid.uuid4().hex}"
        written = self.store.write(frame, folder, by, codec)
        return Staged(number, folder, written.names, written.rows)

    def commit(self, staged: Staged, about: Mapping[str, Any]) -> Batch:
        """Make staged files a batch. Raises PipelineFailed: another writer made this batch."""
        number, attempt = staged.number, staged.folder.rpartition("/")[2]
        files = tuple(self._final(name, number) for name in staged.names)
        batch = Batch(number, staged.rows, files, about)
        decision = self._decision(number)
        decided = self.store.put_new(decision, batch.to_json(staged=attempt))
        if decided and self.has(number):
            self.store.delete(decision)
            decided = False
        if not decided:
            raise PipelineFailed(
                f"another job wrote batch {number} of {self.store.of(self.data)} meanwhile: run one at a time; this "
                "one may be started again"
            )
        self._publish(batch, attempt)
        return batch

    def _publish(self, batch: Batch, attempt: str) -> None:
        staged, number = f"{self._home}{STAGING}/{attempt}", batch.number
        if self._folder_each and self.store.renames:
            self.store.move([(staged, f"{self.data}/batch={number}")])
        else:
            self.store.move((f"{staged}/{self._staged(file, number)}", f"{self.data}/{file}") for file in batch.files)
        if self._log is not None:
            self._log.commit(number, batch.files)
        self.store.put_new(self._manifest(number), batch.to_json())
        self._clean(number)

    def _clean(self, number: int) -> None:
        """Delete what was staged for batches up to this one."""
        folder = self._home + STAGING
        for name in {name.partition("/")[0] for name in self.store.names(folder)}:
            if not name[:8].isdigit() or int(name[:8]) <= number:
                self.store.delete(f"{folder}/{name}")

    def _final(self, name: str, number: int) -> str:
        """Return the final name of a staged file: ``topic=a/part-1.parquet`` becomes
        ``topic=a/00000007-1.parquet``, or ``batch=7/topic=a/part-1.parquet``.
        """
        if self._folder_each:
            return f"batch={number}/{name}"
        folder, _, file = name.rpartition("/")
        return f"{folder}/{batch_name(number)}-{file.removeprefix('part-')}".lstrip("/")

    def _staged(self, name: str, number: int) -> str:
        """Return the staged name of a file, whose final name is given."""
        if self._folder_each:
            return name.partition("/")[2]
        folder, _, file = name.rpartition("/")
        return f"{folder}/part-{file.removeprefix(f'{batch_name(number)}-')}".lstrip("/")

    def _manifest(self, number: int) -> str:
        return f"{self._home}{BATCHES}/{batch_name(number)}.json"

    def _decision(self, number: int) -> str:
        return f"{self._home}{STAGING}/{batch_name(number)}/{DECISION}"


def batch_name(number: int) -> str:
    """Return the batch number as it occurs in names."""
    return f"{number:08d}"


def _parsed(text: bytes, where: str) -> tuple[Batch, str]:
    """Return a batch, and the name of the folder where it was staged.

    The first releases staged files beside the decision, and named no folder.
    """
    try:
        about: dict[str, Any] = json.loads(text)
        if about.pop("version") != VERSION:
            raise ValueError(f"another version than {VERSION}")
        number, rows = int(about.pop("batch")), int(about.pop("rows"))
        files, attempt = tuple(map(str, about.pop("files"))), str(about.pop("staged", batch_name(number)))
        if "/" in attempt:
            raise ValueError(f"staged: {attempt!r}")
        return Batch(number, rows, files, about), attempt
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise PipelineFailed(f"{where} is no description of a batch: {error!r}") from None
