"""Exit statuses of interrupted commands: Ctrl-C is status 130, a closed pipe 141, and both print
nothing.

A Ctrl-C raises KeyboardInterrupt at any point, also in an import, where a library may turn it into
another exception or Python may ignore it. So `Interruption` remembers it, and what a command raises
afterwards counts as the interruption.
"""

from __future__ import annotations

import _thread
import contextlib
import errno
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from types import FrameType

import click

INTERRUPTED = 130
BROKEN_PIPE = 141
FULL = (errno.ENOSPC, errno.EDQUOT)
AGAIN_S = 0.01
_SHOW_CURSOR = "\x1b[?25h"


class Interruption:
    """The Ctrl-C of this process."""

    happened = False
    _is_in_hook = False

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Raise KeyboardInterrupt. This is a signal handler."""
        self.happened = True
        raise KeyboardInterrupt

    def retry(self, ignored: sys.UnraisableHookArgs) -> None:
        """Interrupt again, because Python ignored it in a callback. This is an unraisable hook.

        From another thread, and not before the hook has ended: here the exception would be ignored
        too, and the start of a thread may take longer than any delay.
        """
        if ignored.exc_type is KeyboardInterrupt:
            self._is_in_hook = True
            threading.Thread(target=self._interrupt_again, daemon=True).start()
            self._is_in_hook = False
        elif not self.happened:
            sys.__unraisablehook__(ignored)

    def _interrupt_again(self) -> None:
        while self._is_in_hook:
            time.sleep(AGAIN_S)
        time.sleep(AGAIN_S)
        main_id = threading.main_thread().ident
        if main_id is not None and hasattr(signal, "pthread_kill"):
            signal.pthread_kill(main_id, signal.SIGINT)  # wakes it from a system call too
        else:  # Windows
            _thread.interrupt_main()


interruption = Interruption()


@contextlib.contextmanager
def ends_quietly() -> Iterator[None]:
    """Turn a Ctrl-C and a closed pipe in the block into their exit statuses.

    Raises: Exit: with `INTERRUPTED` or `BROKEN_PIPE`. ClickException: the disk of the output is
        full.
    """
    try:
        yield
        flush_output()
    except KeyboardInterrupt:
        raise click.exceptions.Exit(INTERRUPTED) from None
    except BrokenPipeError:
        discard_output()
        raise click.exceptions.Exit(BROKEN_PIPE) from None
    except OSError as error:
        if error.errno not in FULL or error.filename is not None:
            raise
        discard_output()
        raise click.ClickException(f"the output can't be written: {error.strerror}") from None
    except click.exceptions.Abort as error:
        # a prompt raises it for Ctrl-C and for the end of the input
        if not interruption.happened and not isinstance(error.__context__, KeyboardInterrupt):
            raise
        raise click.exceptions.Exit(INTERRUPTED) from None
    except Exception as error:
        if interruption.happened and not isinstance(error, click.exceptions.Exit):
            raise click.exceptions.Exit(INTERRUPTED) from None
        raise


def flush_output() -> None:
    """Write what is buffered, so that a closed pipe shows here and not when Python ends."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None and not stream.closed:
            stream.flush()


def discard_output() -> None:
    """Discard further output, Python's last flush too, of streams that can't be written."""
    for stream, number in ((sys.stdout, 1), (sys.stderr, 2)):
        try:
            if stream is None or stream.fileno() != number:
                continue
        except (OSError, ValueError):  # no file, or closed
            continue
        try:
            stream.flush()
        except OSError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, number)
            os.close(nowhere)


def run(root: click.Group, prog_name: str) -> None:
    """Run the command of this process and exit."""
    sys.unraisablehook = interruption.retry
    if threading.current_thread() is threading.main_thread():
        with contextlib.suppress(ValueError):
            signal.signal(signal.SIGINT, interruption.handle)
    try:
        status = _main(root, prog_name)
    except KeyboardInterrupt:
        status = INTERRUPTED
    signal.signal(signal.SIGINT, end_at_once)  # what Python does at its end can't be interrupted quietly
    try:
        flush_output()
    except BrokenPipeError:
        discard_output()
        status = status or BROKEN_PIPE
    sys.exit(status)


def _main(root: click.Group, prog_name: str) -> int:
    try:
        root.main(prog_name=prog_name)
    except SystemExit as end:
        if isinstance(end.code, str):
            click.echo(end.code, err=True)
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


def end_at_once(number: int, frame: FrameType | None) -> None:
    """End the process without a word, with the cursor shown. This is a signal handler."""
    with contextlib.suppress(OSError):
        if os.isatty(2):
            os.write(2, _SHOW_CURSOR.encode())
    os._exit(INTERRUPTED)
