"""The manifest of one partition: which segments the tier has. Read by all, written by the leader.

Each change is one conditional put of the root, on the condition that it is as it was
read. The root has the epoch of the leader that wrote last, and a leader of an older epoch gives up:
a deposed one can't write, however late its request arrives. Objects have random ids, or the
checksum of their content, so what a deposed leader still puts replaces nothing; and a key in
`deleting` is never used again, so what it still deletes is not needed.

    copy      announce (`copying`), put the object, make it a segment: only then it is read
    delete    take out of the tree (`deleting`), delete the objects, forget their keys

A crash after any step leaves a root that says what is left to do: an announced copy is deleted by
the next leader, a deletion goes on. After an error a method is repeated, whether its change was
written or not. Nothing is added to `deleting` before it was emptied, which bounds it.

Two kinds of objects can remain that no root names: one that is put, or whose put the store carries
out, after the next leader has deleted its key (`copier` deletes it when it learns of that); and a
page that was put before a crash, if its segments change before the next leader comes to it.

Durability: what a method wrote is durable on return; the store keeps a put or does not.

Source: KIP-405 (states of segments); the tree is ours, as Kafka keeps one record per segment in a
topic.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from threading import Lock, RLock
from typing import NamedTuple, TypeVar

from kqueue.tier.errors import LeaderFenced, ObjectChanged, ObjectNotFound, TierCorrupt
from kqueue.tier.formats.keys import TieredPartition
from kqueue.tier.formats.manifest_root import (
    DOCUMENT_BYTES_MAX,
    EPOCHS_LISTED_MAX,
    LIST_ITEMS_MAX,
    PAGE_ITEMS,
    ManifestRoot,
    PageRef,
    decode_pages,
    decode_root,
    decode_segments,
    encode_page,
    encode_root,
)
from kqueue.tier.formats.segments import TieredSegment, read_segment
from kqueue.tier.lineage import Lineage
from kqueue.tier.stores.contract import TierStore, Version

T = TypeVar("T", PageRef, TieredSegment)
ATTEMPTS_MAX = 5
PAGES_CACHED = 16
Change = Callable[[ManifestRoot], ManifestRoot | None]


class _Page(NamedTuple):
    """The content of a page: of level 0 segments, else references."""

    segments: tuple[TieredSegment, ...]
    pages: tuple[PageRef, ...]


class Manifest:
    """The manifest of one partition.

    Attributes: partition; root: as read or written last.
    Thread: any. Changes and `refresh` wait for each other; reads wait for nothing but their own
        pages, and are of the root at their beginning.
    Raises, in all methods that use the store: TierError. ObjectNotFound: a page or the manifest was
        deleted since the root was read; `refresh` says whether there is a newer one.
    """

    def __init__(self, store: TierStore, partition: TieredPartition) -> None:
        """Begins with an empty root; `refresh` reads it."""
        self.partition = partition
        self.root = ManifestRoot(partition)
        self._store = store
        self._version: Version | None = None  # None: there is no object yet
        self._lock = RLock()
        self._pages_lock = Lock()  # never held while the store is asked
        self._pages: OrderedDict[str, _Page] = OrderedDict()

    @classmethod
    def open(cls, store: TierStore, partition: TieredPartition) -> Manifest:
        """Return the manifest as it is now; one that does not exist is empty."""
        manifest = cls(store, partition)
        manifest.refresh()
        return manifest

    def refresh(self) -> ManifestRoot:
        """Read the root again, and return it.

        Raises: ObjectNotFound: there was a root, and it is gone: the topic was deleted, or all its
            objects are lost. An empty root in its place would hide that.
        """
        with self._lock:
            try:
                body, version = self._store.get(self.partition.manifest_key, max_bytes=DOCUMENT_BYTES_MAX)
            except ObjectNotFound as error:
                if self._version is not None or self.root.sequence:
                    raise ObjectNotFound(f"{error}, but it did before: the tier of {self.partition} is gone") from None
                return self.root
            self.root, self._version = decode_root(body, self.partition), version
            return self.root

    @property
    def exists(self) -> bool:
        """Whether the store has a root."""
        return self._version is not None

    # --- reading

    @property
    def start_offset(self) -> int:
        """First offset to read from the tier; it may be in a gap. `end_offset`: there is none."""
        root = self.root
        oldest = next((level[0] for level in reversed(root.levels) if level), next(iter(root.segments), None))
        end = end_of(root)
        return end if oldest is None else min(max(oldest.start_offset, root.removed_below, root.log_start_offset), end)

    @property
    def end_offset(self) -> int:
        """Exclusive end of the newest segment; without one, what `removed_below` says."""
        return end_of(self.root)

    def agreed_end(self, lineage: Lineage) -> int:
        """Return the `end_offset` that a claim with this lineage would leave."""
        return end_of(self._agreed_root(self.root, lineage))

    def agreeing(self, lineage: Lineage) -> Manifest:
        """Return the part of the present root that a log with this lineage agrees with, which is
        what a claim would leave. For reads: it is not to be changed or refreshed.
        """
        part = Manifest(self._store, self.partition)
        part.root = self._agreed_root(self.root, lineage)
        part._pages, part._pages_lock = self._pages, self._pages_lock
        return part

    def _agreed_root(self, root: ManifestRoot, lineage: Lineage) -> ManifestRoot:
        while True:
            opened = self._with_newest_page_open(root)
            kept, _ = _divided(opened.segments, lineage)
            if kept == opened.segments:
                return root
            root = opened.next(segments=kept)
            if kept or not root.levels:
                return root

    def find(self, offset: int) -> TieredSegment | None:
        """Return the segment with `offset`, else the next one; None: all end at or before it."""
        return next(self.segments(offset), None)

    def latest(self) -> TieredSegment | None:
        """Return the newest segment; None: there is none."""
        end = self.end_offset
        return self.find(end - 1) if end else None

    def segments(self, from_offset: int = 0, *, min_timestamp: int | None = None) -> Iterator[TieredSegment]:
        """Yield the segments that end above `from_offset`, oldest first.

        Args: min_timestamp: only those with a record at or after it (ms); pages without one are
            not read.
        """
        root = self.root
        from_offset = max(from_offset, root.removed_below)
        for number in reversed(range(len(root.levels))):
            for page in _ending_above(root.levels[number], from_offset):
                yield from self._segments_in(page, number, from_offset, min_timestamp)
        for segment in _ending_above(root.segments, from_offset):
            if min_timestamp is None or segment.max_timestamp >= min_timestamp:
                yield segment

    def _segments_in(
        self, ref: PageRef, level: int, from_offset: int, min_timestamp: int | None
    ) -> Iterator[TieredSegment]:
        if min_timestamp is not None and ref.max_timestamp < min_timestamp:
            return
        page = self._page(ref, level)
        for child in _ending_above(page.pages, from_offset):
            yield from self._segments_in(child, level - 1, from_offset, min_timestamp)
        for segment in _ending_above(page.segments, from_offset):
            if min_timestamp is None or segment.max_timestamp >= min_timestamp:
                yield segment

    def _page(self, ref: PageRef, level: int) -> _Page:
        with self._pages_lock:
            page = self._pages.get(ref.object_id)
            if page is not None:
                self._pages.move_to_end(ref.object_id)
                return page
        data = self._store.get(ref.key(self.partition), max_bytes=DOCUMENT_BYTES_MAX).body
        page = _Page((), decode_pages(data, ref, level)) if level else _Page(decode_segments(data, ref), ())
        with self._pages_lock:
            self._pages[ref.object_id] = page
            if len(self._pages) > PAGES_CACHED:
                self._pages.popitem(last=False)
        return page

    # --- writing, by the leader

    def claim(self, leader_epoch: int, lineage: Lineage | None) -> ManifestRoot:
        """Take the manifest over for a leader: from here on no earlier one can write.

        Removes what the leader's log contradicts, and what copies of earlier leaders have left.
        A log start beyond the first record of the leader is lowered to it: after an unclean
        election these offsets have new records, which would be deleted else, or never copied.
        Args: lineage: of the leader's log; None: its log is empty, and it will go on from the tier.
        Raises: LeaderFenced: a leader of a later epoch has written.
        """
        with self._lock:
            self._change(leader_epoch, lambda root: self._taken_over(root, leader_epoch, lineage))
            self._abandon_copies(leader_epoch)
            self.finish_deletion(leader_epoch)
            while lineage is not None and self._cut_newest(leader_epoch, lineage):
                self.finish_deletion(leader_epoch)
            self._change(leader_epoch, _with_lowered_end)
            return self.root

    def _taken_over(self, root: ManifestRoot, leader_epoch: int, lineage: Lineage | None) -> ManifestRoot:
        """Return the root with the epoch of a new leader.

        In the same write its log start is lowered, but not below segments that stay. A later one
        can't tell that from the start that this leader has raised since.
        """
        start = root.log_start_offset
        if lineage is not None and root.leader_epoch < leader_epoch and lineage.leader_start < start:
            left = self._agreed_root(root, lineage)
            tier_end = end_of(left) if left.segments or left.levels else 0
            start = min(start, max(lineage.leader_start, tier_end))
        return root.next(leader_epoch=leader_epoch, log_start_offset=start)

    def begin_copy(self, leader_epoch: int, segment: TieredSegment) -> None:
        """Announce a copy, whose object does not exist yet; drop the earlier ones that failed.

        Raises: LeaderFenced. ObjectChanged: the tier has part of its offsets already, which the
            caller did not know, for the answer to an earlier change was lost: look at `end_offset`.
            TierCorrupt: the entry can't be one of a manifest: it has too many epochs, or begins
            behind the end of the tier, where records would be missing.
        """
        read_segment(segment.to_json())

        def announce(root: ManifestRoot) -> ManifestRoot | None:
            if segment in root.copying:
                return None
            if segment.start_offset < end_of(root):
                raise ObjectChanged(
                    f"{self.partition}: the tier ends at {end_of(root)}, a copy from {segment.start_offset} on is late"
                )
            _check_no_gap(root, segment)
            return root.next(copying=(*root.copying, segment))

        with self._lock:
            self._abandon_copies(leader_epoch)
            self.finish_deletion(leader_epoch)
            self._change(leader_epoch, announce)

    def finish_copy(self, leader_epoch: int, segment: TieredSegment) -> None:
        """Make an announced copy part of the log. `segment`: the entry with its checksum.

        Raises: LeaderFenced; also where the copy was given up meanwhile.
        """

        def add(root: ManifestRoot) -> ManifestRoot | None:
            if any(known.object_id == segment.object_id for known in root.segments):
                return None
            if all(known.object_id != segment.object_id for known in root.copying):
                raise LeaderFenced(f"{self.partition}: the copy of offset {segment.base_offset} was given up")
            _check_no_gap(root, segment)
            others = tuple(known for known in root.copying if known.object_id != segment.object_id)
            size, count = root.size + segment.size, root.count + 1
            return self._with_pages(
                root.next(copying=others, segments=(*root.segments, segment), size=size, count=count)
            )

        with self._lock:
            self._change(leader_epoch, add)

    def delete_unless_listed(self, segment: TieredSegment) -> None:
        """Delete the object of a copy that failed because this leader was fenced.

        A later leader has written the root, and adds no copy of this one: an object that is not
        part of the tree now never will be.
        """
        with self._lock:
            found = self.find(segment.start_offset)
            if found is None or found.object_id != segment.object_id:
                self._store.delete([segment.key(self.partition)])

    def rebuild(self, segments: Sequence[TieredSegment], leader_epoch: int) -> ManifestRoot:
        """Write a manifest of these segments in place of one that is lost or can't be read.

        Announced copies, deletions and a log start above the first segment are forgotten.
        Args:
            segments: oldest first, without overlaps. leader_epoch: of the latest leader that wrote.
        Raises: ObjectChanged: somebody has written meanwhile.
        """
        key, start = self.partition.manifest_key, segments[0].start_offset if segments else 0
        with self._lock:
            try:
                self._version = self._store.get(key, max_bytes=DOCUMENT_BYTES_MAX).version
            except ObjectNotFound:
                self._version = None
            except TierCorrupt:  # too large, so that its version can't be read
                self._store.delete([key])
                self._version = None
            root = ManifestRoot(self.partition, leader_epoch=leader_epoch, log_start_offset=start, removed_below=start)
            for segment in segments:
                added = (*root.segments, segment)
                root = self._with_pages(root.next(segments=added, size=root.size + segment.size, count=root.count + 1))
            self._version = self._store.put_if(key, encode_root(root), self._version)
            self.root = root
            return root

    def raise_start(self, leader_epoch: int, offset: int) -> None:
        """Raise the log start; it never decreases. Raises: LeaderFenced."""

        def raised(root: ManifestRoot) -> ManifestRoot | None:
            return root.next(log_start_offset=offset) if offset > root.log_start_offset else None

        with self._lock:
            self._change(leader_epoch, raised)

    def delete_below_start(self, leader_epoch: int) -> int:
        """Delete the segments that are wholly below the log start; a page's worth of them at most.

        Returns: how many; call it again until that is 0. Raises: LeaderFenced.
        """
        count = 0

        def remove(root: ManifestRoot) -> ManifestRoot | None:
            nonlocal count
            if root.deleting:
                return None  # it was written before, and the answer was lost
            removed = self._oldest_below(root.log_start_offset)
            count = len(removed)
            return self._without_oldest(root, removed) if removed else None

        with self._lock:
            self.finish_deletion(leader_epoch)
            self._change(leader_epoch, remove)
            self.finish_deletion(leader_epoch)
            return count

    def finish_deletion(self, leader_epoch: int) -> None:
        """Delete the objects that the root says are to be deleted. Raises: LeaderFenced."""
        with self._lock:
            keys = self.root.deleting
            if keys:
                self._store.delete(keys)

                def forget(root: ManifestRoot) -> ManifestRoot | None:
                    left = tuple(key for key in root.deleting if key not in keys)
                    return root.next(deleting=left) if left != root.deleting else None

                self._change(leader_epoch, forget)

    def _change(self, leader_epoch: int, change: Change) -> None:
        """Write what `change` makes of the root; None: nothing. Where somebody else has written
        since, it is called again with what they wrote.

        Raises: LeaderFenced, TierError.
        """
        for attempt in range(ATTEMPTS_MAX):
            if self.root.leader_epoch > leader_epoch:
                raise LeaderFenced(
                    f"{self.partition}: the leader of epoch {self.root.leader_epoch} writes the manifest, "
                    f"this one is of epoch {leader_epoch}"
                )
            root = change(self.root)
            if root is None:
                return
            body = encode_root(root)
            decode_root(body, self.partition)  # what can't be read again must never be written
            try:
                self._version = self._store.put_if(self.partition.manifest_key, body, self._version)
            except ObjectChanged:
                if attempt == ATTEMPTS_MAX - 1:
                    raise
                self.refresh()
            else:
                self.root = root
                return

    def _with_pages(self, root: ManifestRoot) -> ManifestRoot:
        """Return the root with its lists within their bounds; writes the pages that it takes."""
        while len(root.segments) >= LIST_ITEMS_MAX or _epochs_in(root.segments) > EPOCHS_LISTED_MAX:
            half = (len(root.segments) + 1) // 2
            page = self._put_page(root.segments[:half], 0)
            root = replace_level(root, 0, (*level_of(root, 0), page), segments=root.segments[half:])
        level = 0
        while len(level_of(root, level)) >= LIST_ITEMS_MAX:
            pages = level_of(root, level)
            page = self._put_page(pages[:PAGE_ITEMS], level + 1)
            root = replace_level(root, level, pages[PAGE_ITEMS:])
            level += 1
            root = replace_level(root, level, (*level_of(root, level), page))
        return root

    def _put_page(self, items: tuple[PageRef, ...] | tuple[TieredSegment, ...], level: int) -> PageRef:
        ref, data = encode_page(items, level)
        self._store.put(ref.key(self.partition), (data,), len(data))
        return ref

    def _abandon_copies(self, leader_epoch: int) -> None:
        """Give up the announced copies; their objects are deleted."""

        def give_up(root: ManifestRoot) -> ManifestRoot | None:
            if not root.copying:
                return None
            keys = [segment.key(self.partition) for segment in root.copying]
            return root.next(copying=(), deleting=(*root.deleting, *keys))

        self._change(leader_epoch, give_up)

    def _oldest_below(self, offset: int) -> list[TieredSegment]:
        removed: list[TieredSegment] = []
        for segment in self.segments():
            if segment.end_offset > offset or len(removed) == PAGE_ITEMS:
                break
            removed.append(segment)
        return removed

    def _without_oldest(self, root: ManifestRoot, removed: Sequence[TieredSegment]) -> ManifestRoot:
        below = removed[-1].end_offset
        keys = [segment.key(self.partition) for segment in removed]
        levels = []
        for number, pages in enumerate(root.levels):
            for page in pages:
                keys += self._pages_that_end(page, number, root.removed_below, below)
            levels.append(tuple(page for page in pages if page.end_offset > below))
        return root.next(
            removed_below=below,
            levels=_without_empty(levels),
            segments=tuple(segment for segment in root.segments if segment.end_offset > below),
            deleting=(*root.deleting, *keys),
            size=root.size - sum(segment.size for segment in removed),
            count=root.count - len(removed),
        )

    def _pages_that_end(self, ref: PageRef, level: int, above: int, upto: int) -> Iterator[str]:
        """Yield the keys of this page and the pages in it that end above `above`, up to `upto`."""
        if ref.end_offset <= above or ref.start_offset >= upto:
            return
        if level:
            for child in self._page(ref, level).pages:
                yield from self._pages_that_end(child, level - 1, above, upto)
        if ref.end_offset <= upto:
            yield ref.key(self.partition)

    def _cut_newest(self, leader_epoch: int, lineage: Lineage) -> bool:
        """Remove those of the newest segments that the leader's log contradicts; cut the last one
        where the contradiction begins.

        Returns: whether it did, so that those of the page before may have to go too.
        """
        has_cut = False

        def cut(root: ManifestRoot) -> ManifestRoot | None:
            nonlocal has_cut
            if root.deleting:
                return None  # it was written before, and the answer was lost
            opened = self._with_newest_page_open(root)
            kept, removed = _divided(opened.segments, lineage)
            has_cut = kept != opened.segments
            if not has_cut:
                return None
            return opened.next(
                segments=kept,
                deleting=(*opened.deleting, *(segment.key(self.partition) for segment in removed)),
                size=opened.size - sum(segment.size for segment in removed),
                count=opened.count - len(removed),
            )

        self._change(leader_epoch, cut)
        return has_cut

    def _with_newest_page_open(self, root: ManifestRoot) -> ManifestRoot:
        """Return the root with the segments of its newest page in it, if it has no others."""
        while not root.segments and root.levels:
            level = next(number for number, pages in enumerate(root.levels) if pages)
            ref = root.levels[level][-1]
            page = self._page(ref, level)
            root = replace_level(
                root, level, root.levels[level][:-1], deleting=(*root.deleting, ref.key(self.partition))
            )
            if level:
                root = replace_level(root, level - 1, _ending_above(page.pages, root.removed_below))
            else:
                root = root.next(segments=_ending_above(page.segments, root.removed_below))
        return root


def _with_lowered_end(root: ManifestRoot) -> ManifestRoot | None:
    """Return the root whose end, without a segment, is the log start; None: it is not above it, as
    it never is but after `_taken_over` has lowered the log start.
    """
    if root.count or root.removed_below <= root.log_start_offset:
        return None
    return root.next(removed_below=root.log_start_offset)


def _divided(
    segments: tuple[TieredSegment, ...], lineage: Lineage
) -> tuple[tuple[TieredSegment, ...], list[TieredSegment]]:
    """Return the segments that a log agrees with, the last one cut where needed, and the others."""
    kept, removed = list(segments), []
    while kept:
        newest = kept.pop()
        common = lineage.common_end(newest)
        if common > newest.start_offset:
            kept.append(newest if common == newest.end_offset else newest.cut(common))
            break
        removed.append(newest)
    return tuple(kept), removed


def _check_no_gap(root: ManifestRoot, segment: TieredSegment) -> None:
    """Raises: TierCorrupt: no segment has the records before this one, which have not expired."""
    end = max(end_of(root), root.log_start_offset)
    if segment.start_offset > end:
        raise TierCorrupt(
            f"{root.partition}: the tier ends at {end}, expected the next segment to begin there, found one at "
            f"{segment.start_offset}"
        )


def _epochs_in(segments: tuple[TieredSegment, ...]) -> int:
    return sum(len(segment.epochs) for segment in segments)


def end_of(root: ManifestRoot) -> int:
    """Return the exclusive end of the newest segment; without one, what `removed_below` says."""
    newest: TieredSegment | PageRef | None = root.segments[-1] if root.segments else None
    if newest is None:
        newest = next((level[-1] for level in root.levels if level), None)
    return root.removed_below if newest is None else max(newest.end_offset, root.removed_below)


def level_of(root: ManifestRoot, number: int) -> tuple[PageRef, ...]:
    """Return the pages of a level; empty: it has none."""
    return root.levels[number] if number < len(root.levels) else ()


def replace_level(
    root: ManifestRoot,
    number: int,
    pages: tuple[PageRef, ...],
    *,
    segments: tuple[TieredSegment, ...] | None = None,
    deleting: tuple[str, ...] | None = None,
) -> ManifestRoot:
    """Return the root with these pages as a level, and with other lists where they are given."""
    levels = [*root.levels, *[()] * (number + 1 - len(root.levels))]
    levels[number] = pages
    return root.next(
        levels=_without_empty(levels),
        segments=root.segments if segments is None else segments,
        deleting=root.deleting if deleting is None else deleting,
    )


def _without_empty(levels: Sequence[tuple[PageRef, ...]]) -> tuple[tuple[PageRef, ...], ...]:
    """Return the levels up to the highest one with pages."""
    count = max((number + 1 for number, pages in enumerate(levels) if pages), default=0)
    return tuple(levels[:count])


def _ending_above(items: tuple[T, ...], offset: int) -> tuple[T, ...]:
    return items[bisect_right(items, offset, key=_end) :]


def _end(item: PageRef | TieredSegment) -> int:
    return item.end_offset
