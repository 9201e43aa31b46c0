"""Which files there are and how far each has been read: rotations, truncations, files that go and
come. Knows nothing of brokers.

A file is its device and inode while it is open here, so a new name changes nothing: what was
renamed is read to its end, and what took its name begins as a file of its own. What was truncated
begins anew, after the rest of its copy if there is one. A file that is met again later is known by
the bytes around its position (`marks`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path

from kqueue.collect.file_discovery import DiscoveredFile, FileId, find_files, is_rotated_name, siblings
from kqueue.collect.fingerprint import DISTINCTIVE_BYTES, fingerprint_at, last_line_end
from kqueue.collect.state_file import FilePosition
from kqueue.collect.tailed_file import Line, ReadPosition, TailedFile

ASIDE_S = 60.0  # how long a file that looks like a copy in the making is left alone
KEPT_S = 60.0  # how long a file that was moved or removed is watched after it last grew
GONE_MAX = 1000  # files that are gone, and may come back: of so many the positions are kept


class FileTailer:
    """Follows the files that `patterns` name, and gives their lines in the order of each file.

    Args: line_bytes_max: longer lines come in parts. partial_s: after how long without growth the
    unfinished last line is given as it is. from_end: files that are there at the first scan begin
    at their end (but for those of `restore`). now_s: a monotonic clock. new_source: gives a name
    that no content has had. tell: takes a sentence for people. ignored: absolute paths to leave
    out.

    `scan`, `read` and `commit` take turns; `positions` is what to keep after each `commit`, and
    before the first line is sent anywhere.
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
        self.sources: list[TailedFile] = []
        """What is followed, the older contents first."""
        self._gone: dict[str, FilePosition] = {}
        self._aside: dict[FileId, tuple[int, float]] = {}  # when it changed, by the file's clock and ours
        self._unreadable: set[str] = set()
        self._turn = 0
        self._scanned = False

    def close(self) -> None:
        """Let go of all files."""
        for source in self.sources:
            source.close()
        self.sources.clear()

    # --- what is there

    @property
    def count(self) -> int:
        """How many files are followed."""
        return len(self.sources)

    @property
    def is_behind(self) -> bool:
        """Whether something waits: to be read, or to be given as an unfinished line once its time
        has come.
        """
        return any(source.unread for source in self.sources)

    def positions(self) -> list[FilePosition]:
        """How far all has been committed, those of files that are gone for the moment too."""
        kept = [_position_of(source) for source in self.sources]
        return kept + list(self._gone.values())

    def report_unmatched_patterns(self) -> None:
        """A pattern that matches nothing may be one that was mistyped."""
        for pattern in self.patterns:
            if not find_files([pattern], self._ignored):
                self._tell(f"no file {pattern} yet")

    # --- lines

    def read(self, lines_max: int, bytes_max: int) -> list[Line]:
        """The next lines, up to about so many bytes; files take turns. Empty: there is nothing to
        be read at the moment.
        """
        now_s = self._now_s()
        lines: list[Line] = []
        for source in self._in_turn():
            take_rest = source.grew_s is not None and now_s - source.grew_s >= self.partial_s
            while source.unread and len(lines) < lines_max and bytes_max > 0:
                before = source.place
                more = source.read(self.line_bytes_max, lines_max - len(lines), bytes_max, take_rest=take_rest)
                if source.place == before:
                    break
                lines += more
                bytes_max -= sum(len(line.value) for line in more)
        self._turn += 1
        return lines

    def commit(self) -> None:
        """All that was read has arrived."""
        for source in self.sources:
            source.commit()

    def _in_turn(self) -> list[TailedFile]:
        """All sources; each time another name comes first, but under one name always the older
        content.
        """
        groups: dict[str, list[TailedFile]] = {}
        for source in self.sources:
            groups.setdefault(source.name, []).append(source)
        order = list(groups.values())
        first = self._turn % len(order) if order else 0
        return [source for group in order[first:] + order[:first] for source in group]

    # --- files that come, change and go

    def scan(self) -> None:
        """See what has become of the files, and which there are now."""
        now_s = self._now_s()
        for source in list(self.sources):
            if not source.look(now_s):
                self._begin_anew(source, now_s)
        found = find_files(self.patterns, self._ignored)
        self._see_where_they_are({file.id: file for file in found}, now_s)
        old = None if self._scanned or not self._from_end else self._ids_of_old_patterns()
        for file in found:
            if file.id not in self._ids():
                self._begin(file, now_s, at_end=old is not None and file.id not in old)
        self._let_go(now_s)
        self._scanned = True

    def _ids(self) -> set[FileId]:
        return {source.id for source in self.sources}

    def _ids_of_old_patterns(self) -> set[FileId]:
        return {file.id for file in find_files(self._old_patterns.intersection(self.patterns), self._ignored)}

    def _see_where_they_are(self, found: dict[FileId, DiscoveredFile], now_s: float) -> None:
        for source in self.sources:
            file = found.get(source.id)
            if file is not None:
                source.path, source.lost_s = file.path, None
            elif source.lost_s is None:
                source.lost_s = now_s

    def _begin(self, file: DiscoveredFile, now_s: float, *, at_end: bool) -> None:
        """Follow a file that is new here, from where it is known to, or its beginning, or its end."""
        original = self._being_copied(file)
        if original is not None and self._stays_aside(file, now_s):
            return
        source = self._open(file.path)
        if source is None:
            return
        size = os.fstat(source.file).st_size
        known = self._met_again(source)
        if known is not None:
            source.source, place = known
        elif original is not None and size >= DISTINCTIVE_BYTES:
            place = ReadPosition(
                fingerprint_at(source.file, size)
            )  # a copy that stays: what it holds is read in the original
        elif at_end:
            place = ReadPosition(fingerprint_at(source.file, last_line_end(source.file, size, self.line_bytes_max + 1)))
        else:
            place = ReadPosition()
        source.place = source.confirmed = place
        source.look(now_s)
        self.sources.append(source)

    def _open(self, path: str, **more: object) -> TailedFile | None:
        """A source, or None if the file can't be read; that is told once."""
        try:
            source = TailedFile.open(path, self._new_source(), **more)
        except FileNotFoundError:
            return None
        except OSError as error:
            if path not in self._unreadable:
                self._unreadable.add(path)
                self._tell(f"{path} can't be read: {error.strerror}; it is tried again and again")
            return None
        self._unreadable.discard(path)
        if source.id in self._ids():  # it was moved here between two looks
            source.close()
            return None
        return source

    def _met_again(self, source: TailedFile) -> tuple[str, ReadPosition] | None:
        """The name and the place of this content, if it was here before under this path."""
        for other in self.sources:
            replaced = other.lost_s is not None and other.path == source.path and os.fstat(other.file).st_nlink == 0
            if replaced and other.place.fingerprint.is_distinctive and other.place.fingerprint.holds_in(source.file):
                other.close()
                self.sources.remove(other)
                return other.source, other.place
        position = self._gone.pop(source.path, None)
        if position is None:
            return None
        place = _place_in(source, position)
        return None if place is None else (position.source, place)

    def _begin_anew(self, source: TailedFile, now_s: float) -> None:
        """The file was truncated or written anew; if it was copied before, the copy has what had
        not been read.
        """
        for file in siblings(source.path):
            if file.id in self._ids() or not source.may_be_copied_to(file):
                continue
            rest = self._open(file.path, name=source.name)
            if rest is None:
                continue
            if source.is_begun_in(rest.file):
                rest.source, rest.place, rest.confirmed = source.source, source.place, source.place
                rest.look(now_s)
                self.sources.insert(self.sources.index(source), rest)
                break
            rest.close()
        else:
            if source.unread:
                self._tell(f"{source.path} was truncated; {source.unread:,} bytes that had not been read are gone")
        source.restart(self._new_source())
        source.look(now_s)

    def _being_copied(self, file: DiscoveredFile) -> TailedFile | None:
        """The source of which a file is a copy, perhaps one that is still being made."""
        for source in self.sources:
            if source.lost_s is None and source.may_be_copied_to(file) and source.begins_like(file.path):
                return source
        return None

    def _stays_aside(self, file: DiscoveredFile, now_s: float) -> bool:
        """Whether to wait and see what becomes of a copy: the original may be about to be
        truncated.
        """
        modified_ns, since_s = self._aside.get(file.id, (-1, now_s))
        if modified_ns != file.modified_ns:
            since_s = now_s
        if now_s - since_s < ASIDE_S:
            self._aside[file.id] = file.modified_ns, since_s
            return True
        del self._aside[file.id]
        return False

    def _let_go(self, now_s: float) -> None:
        """Close files that are nowhere any more, once they have been read and have not grown for a
        while.
        """
        for source in list(self.sources):
            if source.lost_s is None or source.unread or source.place != source.confirmed:
                continue
            if now_s - max(source.lost_s, source.grew_s or 0.0) >= KEPT_S:
                source.close()
                self.sources.remove(source)
                if not os.path.lexists(source.path):
                    self._gone[source.path] = _position_of(source)
        for path in list(self._gone)[: -GONE_MAX or None]:
            del self._gone[path]

    # --- after a restart

    def restore(self, positions: Iterable[FilePosition], patterns: Collection[str], since_ns: int) -> None:
        """Go on from what was kept: before the first scan.

        patterns: those of that time; what they match and is new begins at its beginning. since_ns:
        when it was kept, by the files' clock.
        """
        self._old_patterns = frozenset(patterns)
        found = {file.id: file.path for file in find_files(self.patterns, self._ignored)}
        for position in positions:
            if self._reopen(position, found, since_ns):
                continue
            if not os.path.lexists(position.path):
                self._gone[position.path] = position
            else:
                self._tell(
                    f"{position.path} is another file now; the one before, read up to byte {position.print.offset:,}, was not found"
                )

    def _reopen(self, position: FilePosition, found: dict[FileId, str], since_ns: int) -> bool:
        """Follow the file of a position again, wherever it is now."""
        original = Path(position.path).name
        beside = siblings(position.path)
        paths = [found[position.id]] if position.id in found else []
        paths += [position.path, *(file.path for file in beside if file.id == position.id)]
        copies = [file for file in beside if file.id != position.id and is_rotated_name(Path(file.path).name, original)]
        for path in dict.fromkeys([*paths, *(file.path for file in copies)]):
            source = self._open(path, name=position.name)
            if source is None:
                continue
            fresh = any(file.path == path and file.modified_ns >= since_ns for file in copies)
            place = _place_in(source, position, short_too=fresh)
            if place is not None:
                source.path, source.source, source.place, source.confirmed = path, position.source, place, place
                source.look(self._now_s())
                self.sources.append(source)
                return True
            source.close()
        return False


def _place_in(source: TailedFile, position: FilePosition, *, short_too: bool = False) -> ReadPosition | None:
    """Where to go on, if the file has the content of the position; short contents are alike too
    often to know another file by.
    """
    fingerprint = position.print.find_in(source.file)
    if fingerprint is None or not (source.id == position.id or fingerprint.is_distinctive or short_too):
        return None
    return ReadPosition(fingerprint, position.parts)


def _position_of(source: TailedFile) -> FilePosition:
    place = source.confirmed
    return FilePosition(source.path, source.name, source.source, source.id, place.fingerprint.print(), place.parts)
