"""Follows the files of the patterns through rotation and truncation, and restores their positions.

An open file is identified by device and inode, so renaming changes nothing: a renamed file is read
to its end, and the file that takes its name begins as a new one. A truncated file begins again at
0, after the rest of its copy if there is one. A file that is found again later is recognised by the
bytes before its position, and as the same file by its inode and its birth time. This module does no
network I/O.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from pathlib import Path

from kqueue.collect.file_discovery import DiscoveredFile, FileId, find_files, is_rotated_name, siblings
from kqueue.collect.fingerprint import DISTINCTIVE_BYTES, last_line_end
from kqueue.collect.prefix_hash import PrefixHash
from kqueue.collect.state_file import FilePosition
from kqueue.collect.tailed_file import Line, ReadPosition, TailedFile

COPY_GRACE_S = 60.0  # how long a possible unfinished copy is deferred after it last changed
LINGER_S = 60.0  # how long a moved or removed file is followed after it last grew
MISSING_MAX = 1000  # missing files whose positions are kept, since they may return


class FileTailer:
    """Follows the files that `patterns` match and returns their lines, in order for each file.

    Call `scan`, `read` and `commit` in turn. Save `positions` after each `commit`, and before the
    first line of a new content is sent.

    Args:
        line_bytes_max: longer lines are returned in parts.
        partial_s: seconds without growth after which an unfinished last line is returned.
        now_s: a monotonic clock, seconds.
        new_source: returns a unique id for a content.
        tell: receives sentences for the user.
        from_end: files that exist at the first scan begin at their end, except those of `restore`.
        ignored: absolute paths to leave out.
    """

    def __init__(
        self,
        patterns: Sequence[str],
        *,
        line_bytes_max: int,
        partial_s: float,
        now_s: Callable[[], float],
        new_source: Callable[[], str],
        tell: Callable[[str], None] = lambda sentence: None,
        from_end: bool = False,
        ignored: Collection[str] = (),
    ) -> None:
        self.patterns = tuple(patterns)
        self.line_bytes_max = line_bytes_max
        self.partial_s = partial_s
        self._now_s = now_s
        self._new_source = new_source
        self._tell = tell
        self._from_end = from_end
        self._ignored = ignored
        self._old_patterns: frozenset[str] = frozenset()
        self.files: list[TailedFile] = []
        """The files that are followed, the older contents first."""
        self._missing: dict[str, FilePosition] = {}
        self._deferred_copies: dict[FileId, tuple[int, float]] = {}  # modification time, ns, and when it was seen, s
        self._unreadable: set[str] = set()
        self._turn = 0
        self._scanned = False

    def close(self) -> None:
        """Close all files."""
        for tailed in self.files:
            tailed.close()
        self.files.clear()

    # --- what is there

    @property
    def count(self) -> int:
        """The number of files that are followed."""
        return len(self.files)

    @property
    def is_behind(self) -> bool:
        """Whether bytes are unread, or wait to become an unfinished line."""
        return any(tailed.unread for tailed in self.files)

    def positions(self) -> list[FilePosition]:
        """Return the committed position of each file, also of files that are missing now."""
        kept = [_position_of(tailed) for tailed in self.files]
        return kept + list(self._missing.values())

    def report_unmatched_patterns(self) -> None:
        """Report patterns that match no file: they may be mistyped."""
        for pattern in self.patterns:
            if not find_files([pattern], self._ignored):
                self._tell(f"no file {pattern} yet")

    # --- lines

    def read(self, lines_max: int, bytes_max: int) -> list[Line]:
        """Return the next lines, up to about `bytes_max` bytes; files take turns.

        Empty: nothing can be read at the moment.
        """
        now_s = self._now_s()
        lines: list[Line] = []
        for tailed in self._in_turn():
            take_unfinished = tailed.grew_s is not None and now_s - tailed.grew_s >= self.partial_s
            while tailed.unread and len(lines) < lines_max and bytes_max > 0:
                before = tailed.position_read
                more = tailed.read(
                    self.line_bytes_max, lines_max - len(lines), bytes_max, take_unfinished=take_unfinished
                )
                if tailed.position_read == before:
                    break
                lines += more
                bytes_max -= sum(len(line.value) for line in more)
        self._turn += 1
        return lines

    def commit(self) -> None:
        """Mark all lines that were read as delivered."""
        for tailed in self.files:
            tailed.commit()

    def _in_turn(self) -> list[TailedFile]:
        """Return all files, beginning with another name each time.

        The older content of a name is first.
        """
        groups: dict[str, list[TailedFile]] = {}
        for tailed in self.files:
            groups.setdefault(tailed.name, []).append(tailed)
        order = list(groups.values())
        first = self._turn % len(order) if order else 0
        return [tailed for group in order[first:] + order[:first] for tailed in group]

    # --- files that come, change and go

    def scan(self) -> None:
        """Detect truncated, moved, new and removed files."""
        now_s = self._now_s()
        for tailed in list(self.files):
            if not tailed.look(now_s):
                self._handle_truncation(tailed, now_s)
        files = find_files(self.patterns, self._ignored)
        self._update_paths({file.id: file for file in files}, now_s)
        old = None if self._scanned or not self._from_end else self._ids_of_old_patterns()
        for file in files:
            if file.id not in self._ids():
                self._begin(file, now_s, at_end=old is not None and file.id not in old)
        self._close_finished(now_s)
        self._scanned = True

    def _ids(self) -> set[FileId]:
        return {tailed.id for tailed in self.files}

    def _ids_of_old_patterns(self) -> set[FileId]:
        return {file.id for file in find_files(self._old_patterns.intersection(self.patterns), self._ignored)}

    def _update_paths(self, files: dict[FileId, DiscoveredFile], now_s: float) -> None:
        for tailed in self.files:
            file = files.get(tailed.id)
            if file is not None:
                tailed.path, tailed.lost_s = file.path, None
            elif tailed.lost_s is None:
                tailed.lost_s = now_s

    def _begin(self, file: DiscoveredFile, now_s: float, *, at_end: bool) -> None:
        """Follow a new file from its known position, its beginning, or its end."""
        original = self._original_of(file)
        if original is not None and self._is_deferred(file, now_s):
            return
        tailed = self._open(file.path)
        if tailed is None:
            return
        size = os.fstat(tailed.file).st_size
        known = self._previous_position(tailed)
        if known is not None:
            tailed.source, position_read = known
        elif original is not None and size >= DISTINCTIVE_BYTES and original.has_same_content(tailed.file):
            # A lasting copy: its content is read in the original.
            position_read = ReadPosition.at(tailed.file, size)
        elif at_end:
            position_read = ReadPosition.at(tailed.file, last_line_end(tailed.file, size, self.line_bytes_max + 1))
        else:
            position_read = ReadPosition()
        tailed.position_read = tailed.confirmed = position_read
        tailed.look(now_s)
        self.files.append(tailed)

    def _open(self, path: str, **more: object) -> TailedFile | None:
        """Open a file.

        None: it cannot be read, which is reported once, or it is followed already.
        """
        try:
            tailed = TailedFile.open(path, self._new_source(), **more)
        except FileNotFoundError:
            return None
        except OSError as error:
            if path not in self._unreadable:
                self._unreadable.add(path)
                self._tell(f"{path} can't be read: {error.strerror}; it is tried again and again")
            return None
        self._unreadable.discard(path)
        if tailed.id in self._ids():  # it was renamed to this path between two scans
            tailed.close()
            return None
        return tailed

    def _previous_position(self, tailed: TailedFile) -> tuple[str, ReadPosition] | None:
        """Return content id and position of a content that was followed under this path before."""
        for other in self.files:
            replaced = other.lost_s is not None and other.path == tailed.path and os.fstat(other.file).st_nlink == 0
            if (
                replaced
                and other.position_read.fingerprint.is_distinctive
                and other.position_read.holds_in(tailed.file)
            ):
                other.close()
                self.files.remove(other)
                return other.source, other.position_read
        position = self._missing.pop(tailed.path, None)
        if position is None:
            return None
        position_read = _position_in(tailed, position)
        return None if position_read is None else (position.source, position_read)

    def _handle_truncation(self, tailed: TailedFile, now_s: float) -> None:
        """Handle a truncated or rewritten file.

        Its unread rest is read from the copy, if there is one.
        """
        for file in siblings(tailed.path):
            if file.id in self._ids() or not tailed.may_be_copied_to(file):
                continue
            rest = self._open(file.path, name=tailed.name)
            if rest is None:
                continue
            if tailed.is_begun_in(rest.file):
                rest.source, rest.position_read, rest.confirmed = (
                    tailed.source,
                    tailed.position_read,
                    tailed.position_read,
                )
                rest.look(now_s)
                self.files.insert(self.files.index(tailed), rest)
                break
            rest.close()
        else:
            if tailed.unread:
                self._tell(f"{tailed.path} was truncated; {tailed.unread:,} bytes that had not been read are gone")
        tailed.restart(self._new_source())
        tailed.look(now_s)

    def _original_of(self, file: DiscoveredFile) -> TailedFile | None:
        """Return the file of which `file` is a copy, perhaps an unfinished one."""
        for tailed in self.files:
            if tailed.lost_s is None and tailed.may_be_copied_to(file) and tailed.begins_like(file.path):
                return tailed
        return None

    def _is_deferred(self, file: DiscoveredFile, now_s: float) -> bool:
        """Return whether to defer a copy, because its original may be truncated next."""
        modified_ns, since_s = self._deferred_copies.get(file.id, (-1, now_s))
        if modified_ns != file.modified_ns:
            since_s = now_s
        if now_s - since_s < COPY_GRACE_S:
            self._deferred_copies[file.id] = file.modified_ns, since_s
            return True
        del self._deferred_copies[file.id]
        return False

    def _close_finished(self, now_s: float) -> None:
        """Close files without a matching path that are fully read and stopped growing."""
        for tailed in list(self.files):
            if tailed.lost_s is None or tailed.unread or tailed.position_read != tailed.confirmed:
                continue
            if now_s - max(tailed.lost_s, tailed.grew_s or 0.0) >= LINGER_S:
                tailed.close()
                self.files.remove(tailed)
                if not os.path.lexists(tailed.path):
                    self._missing[tailed.path] = _position_of(tailed)
        for path in list(self._missing)[: -MISSING_MAX or None]:
            del self._missing[path]

    # --- after a restart

    def restore(self, positions: Iterable[FilePosition], patterns: Collection[str], since_ns: int) -> None:
        """Restore saved positions; call it before the first scan.

        Args:
            patterns: those of the saved state; new files that match them begin at their beginning.
            since_ns: modification time of the state file, nanoseconds.
        """
        self._old_patterns = frozenset(patterns)
        paths = {file.id: file.path for file in find_files(self.patterns, self._ignored)}
        ordered = list(positions)
        reopened: dict[int, TailedFile] = {}
        # A file with a position of its own is no copy of another, so copies come second. Positions
        # with more bytes to compare come first: position 0 fits every copy.
        by_offset = sorted(enumerate(ordered), key=lambda numbered: -numbered[1].print.offset)
        for find in (partial(self._reopen, path_of=paths), partial(self._reopen_copy, since_ns=since_ns)):
            for number, position in by_offset:
                tailed = None if number in reopened else find(position)
                if tailed is not None:
                    reopened[number] = tailed
                    self.files.append(tailed)
        self.files = [reopened[number] for number in sorted(reopened)]
        for number, position in enumerate(ordered):
            if number in reopened:
                continue
            if not os.path.lexists(position.path):
                self._missing[position.path] = position
            else:
                self._tell(
                    f"{position.path} is another file now; the one before, "
                    f"read up to byte {position.print.offset:,}, was not found"
                )

    def _reopen(self, position: FilePosition, path_of: dict[FileId, str]) -> TailedFile | None:
        """Return the open file of a position, under its present name; None: it is not there."""
        paths = [path_of[position.id]] if position.id in path_of else []
        paths += [position.path, *(file.path for file in siblings(position.path) if file.id == position.id)]
        for path in dict.fromkeys(paths):
            tailed = self._open_at(path, position)
            if tailed is not None:
                return tailed
        return None

    def _reopen_copy(self, position: FilePosition, since_ns: int) -> TailedFile | None:
        """Return the open copy of the file of a position, made by a rotation; None: none."""
        original = Path(position.path).name
        for file in siblings(position.path):
            if is_rotated_name(Path(file.path).name, original):
                tailed = self._open_at(file.path, position, short_too=file.modified_ns >= since_ns)
                if tailed is not None:
                    return tailed
        return None

    def _open_at(self, path: str, position: FilePosition, *, short_too: bool = False) -> TailedFile | None:
        """Open a file at a position. None: it has another content, or is followed already."""
        tailed = self._open(path, name=position.name)
        if tailed is None:
            return None
        position_read = _position_in(tailed, position, short_too=short_too)
        if position_read is None:
            tailed.close()
            return None
        tailed.path, tailed.source = path, position.source
        tailed.position_read = tailed.confirmed = position_read
        tailed.look(self._now_s())
        return tailed


def _position_in(tailed: TailedFile, position: FilePosition, *, short_too: bool = False) -> ReadPosition | None:
    """Return the position in this file if it has the content of `position`.

    Short contents are often equal: a program writes the same first lines at each start. So they
    identify only the same file, a copy that has its modification time too, or with `short_too` any
    copy. In doubt lines are sent again rather than lost.
    """
    fingerprint = position.print.find_in(tailed.file)
    if fingerprint is None:
        return None
    # Every file begins with no bytes, and the next log may be made in the same tick of the clock.
    is_copy = fingerprint.offset > 0 and os.fstat(tailed.file).st_mtime_ns == position.modified_ns
    if not (_is_same_file(tailed, position) or fingerprint.is_distinctive or is_copy or short_too):
        return None
    prefix = PrefixHash.of(tailed.file, fingerprint.offset)
    if prefix is None or position.prefix not in (None, prefix.digest()):
        return None
    return ReadPosition(fingerprint, position.parts, prefix)


def _is_same_file(tailed: TailedFile, position: FilePosition) -> bool:
    """Return whether this is the file of `position`, and no other that was given its inode.

    The device is compared only where the birth time is unknown: a mount may number it differently.
    """
    if position.born_ns is None or tailed.born_ns is None:
        return tailed.id == position.id
    return (tailed.id[1], tailed.born_ns) == (position.id[1], position.born_ns)


def _position_of(tailed: TailedFile) -> FilePosition:
    position_read = tailed.confirmed
    return FilePosition(
        path=tailed.path,
        name=tailed.name,
        source=tailed.source,
        id=tailed.id,
        print=position_read.fingerprint.print(),
        parts=position_read.parts,
        prefix=position_read.prefix.digest(),
        born_ns=tailed.born_ns,
        modified_ns=tailed.modified_ns,
    )
