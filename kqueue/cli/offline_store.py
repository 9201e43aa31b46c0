"""The metadata store in a data folder whose broker is stopped, or was never started: for what must
be there before the first client can be let in.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kqueue.base.errors import FolderInUse, KqueueError

if TYPE_CHECKING:
    from collections.abc import Callable

    from kqueue.metadata.store import MetadataStore

F = TypeVar("F", bound="Callable[..., Any]")
FOLDER_MODE = 0o700


def folder_option(command: F) -> F:
    """Add ``--folder`` to a command, as its argument `folder`."""
    return click.option(
        "--folder",
        type=click.Path(file_okay=False, path_type=Path),
        help="Change the data folder of a broker that is stopped, or that will be started for the first time, "
        "in place of asking a broker.",
    )(command)


@contextlib.contextmanager
def offline_store(folder: Path) -> Iterator[MetadataStore]:
    """Yield the store of a data folder, made if missing; no broker can start on it meanwhile.

    Raises: ClickException: a broker uses the folder, or it can't be used.
    """
    from kqueue.log.formats.checkpoints import LOCK
    from kqueue.metadata.sqlite import FILE_NAME, SqliteStore
    from kqueue.storage import LocalStorage

    try:
        folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        lock = LocalStorage(str(folder)).lock(LOCK)
    except FolderInUse as error:
        raise click.ClickException(f"{error}. Ask it by --bootstrap-server, or stop it") from None
    except (KqueueError, OSError) as error:
        raise click.ClickException(str(error)) from None
    try:
        store = SqliteStore(folder / FILE_NAME)
        try:
            yield store
        finally:
            store.close()
    except KqueueError as error:
        raise click.ClickException(str(error)) from None
    finally:
        lock.release()
