"""The root of a partition's manifest, and its pages.

    "kqueue-manifest 1 crc32c=xxxxxxxx\n" | JSON          the checksum is of the JSON

The newest segments are in the root. When they are twice `PAGE_ITEMS`, the older half becomes a
page, an object that never changes; references to pages are kept alike, so the root is the top of a
tree:

    levels[1]        levels[0]        segments        copying
    pages of pages   pages            entries         the copy under way
    oldest ------------------------------------------> newest

However many segments there are, a copy writes the root, of bounded size, and now and then a page.
A page is named by the checksum of its content: where a crash leaves one without a root, the next
leader writes the same page under the same name. Whatever ends at or below `removed_below` is not
part of the tree any more, though a page may have it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

from crc32c import crc32c

from kqueue.base.names import parse_uuid, uuid_text
from kqueue.tier.errors import TierCorrupt
from kqueue.tier.formats.fields import EPOCH_MAX, Fields
from kqueue.tier.formats.keys import TieredPartition, is_object_id
from kqueue.tier.formats.segments import TieredSegment, read_segment

Item = TypeVar("Item", "PageRef", TieredSegment)
PAGE_ITEMS = 32
LIST_ITEMS_MAX = 2 * PAGE_ITEMS
LEVELS_MAX = 12
DELETING_MAX = 4 * PAGE_ITEMS
DOCUMENT_BYTES_MAX = 4 << 20
EPOCHS_LISTED_MAX = 20_000
"""Leader epochs of the segments in the root; beyond, the older ones go into a page."""
NO_EPOCH = -1
_HEADER = b"kqueue-manifest 1 crc32c="
_CRC_END = len(_HEADER) + 8


class PageRef(NamedTuple):
    """A page of the manifest, in its parent.

    object_id: checksum of its content. start_offset, end_offset: from its first segment to the end
    of its last.
    max_timestamp: greatest of its segments. size: bytes of batches. segments: how many there are
    below it.
    """

    object_id: str
    start_offset: int
    end_offset: int
    max_timestamp: int
    size: int
    segments: int

    def key(self, partition: TieredPartition) -> str:
        """Return the key of its object."""
        return partition.page_key(self.start_offset, self.object_id)


@dataclass(frozen=True, slots=True)
class ManifestRoot:
    """The root of a manifest; immutable, each change makes another.

    Attributes:
        sequence: counts the changes.
        leader_epoch: of the leader that wrote last; NO_EPOCH: none has. A leader of an older epoch
            may not write.
        log_start_offset: of the partition; segments below it are removed.
        removed_below: segments that end at or below it are not in the tree any more.
        levels: references to pages, of each level the oldest first; pages of level 0 hold segments,
            those of level n pages of level n - 1.
        segments: the newest segments, oldest first. copying: announced copies, whose objects may
            exist in part; they are not read.
        deleting: keys of objects that are deleted next; nothing refers to them.
        size, count: bytes of batches and number of all segments of the tree.
    """

    partition: TieredPartition
    sequence: int = 0
    leader_epoch: int = NO_EPOCH
    log_start_offset: int = 0
    removed_below: int = 0
    levels: tuple[tuple[PageRef, ...], ...] = ()
    segments: tuple[TieredSegment, ...] = ()
    copying: tuple[TieredSegment, ...] = ()
    deleting: tuple[str, ...] = ()
    size: int = 0
    count: int = 0

    def next(self, **changes: Any) -> ManifestRoot:
        """Return the root after a change."""
        return replace(self, sequence=self.sequence + 1, **changes)


def encode_root(root: ManifestRoot) -> bytes:
    """Return the bytes of the object `manifest`."""
    return _encode(
        {
            "topic": root.partition.topic,
            "topic_id": uuid_text(root.partition.topic_id),
            "partition": root.partition.partition,
            "sequence": root.sequence,
            "leader_epoch": root.leader_epoch,
            "log_start": root.log_start_offset,
            "removed_below": root.removed_below,
            "size": root.size,
            "count": root.count,
            "levels": [{"pages": [list(page) for page in level]} for level in root.levels],
            "segments": [segment.to_json() for segment in root.segments],
            "copying": [segment.to_json() for segment in root.copying],
            "deleting": list(root.deleting),
        }
    )


def decode_root(data: bytes, partition: TieredPartition) -> ManifestRoot:
    """Return the root in the object of `partition`.

    Raises: TierCorrupt: this is no manifest, or that of another partition.
    """
    name = f"the manifest of {partition}"
    fields = Fields(_decode(data, name), name)
    try:
        owner = TieredPartition(fields.text("topic"), parse_uuid(fields.text("topic_id")), fields.number("partition"))
    except ValueError as error:
        raise TierCorrupt(f"{name}: {str(error)[:200]}") from None
    if owner != partition:
        raise TierCorrupt(f"{name} is that of {str(owner)[:300]!r}, topic id {uuid_text(owner.topic_id)}")
    root = ManifestRoot(
        partition,
        fields.number("sequence"),
        fields.number("leader_epoch", minimum=NO_EPOCH, maximum=EPOCH_MAX),
        fields.number("log_start"),
        fields.number("removed_below"),
        tuple(fields.items("levels", _level, maximum=LEVELS_MAX)),
        tuple(fields.items("segments", read_segment, maximum=LIST_ITEMS_MAX)),
        tuple(fields.items("copying", read_segment, maximum=LIST_ITEMS_MAX)),
        tuple(fields.items("deleting", lambda key: _deleted_key(key, partition), maximum=DELETING_MAX)),
        fields.number("size"),
        fields.number("count"),
    )
    _check_order([*(page for level in reversed(root.levels) for page in level), *root.segments], name)
    return root


def encode_page(items: Sequence[PageRef] | Sequence[TieredSegment], level: int) -> tuple[PageRef, bytes]:
    """Return a page of at least one segment at level 0, else of references to pages."""
    rows = [item.to_json() if isinstance(item, TieredSegment) else list(item) for item in items]
    data = _encode({"level": level, "items": rows})
    return _reference(items, data), data


def decode_segments(data: bytes, ref: PageRef) -> tuple[TieredSegment, ...]:
    """Return the segments in a page of level 0. Raises: TierCorrupt."""
    return _decode_page(data, ref, 0, read_segment)


def decode_pages(data: bytes, ref: PageRef, level: int) -> tuple[PageRef, ...]:
    """Return the references in a page of a level above 0. Raises: TierCorrupt."""
    return _decode_page(data, ref, level, read_page_ref)


def read_page_ref(values: object) -> PageRef:
    """Return a reference to a page. Raises: TierCorrupt."""
    name = "a page of the manifest"
    if not isinstance(values, list) or len(values) != len(PageRef._fields):
        raise TierCorrupt(f"{name}: expected {len(PageRef._fields)} values, found {str(values)[:60]}")
    fields = Fields(dict(zip(PageRef._fields, values, strict=True)), name)
    if not is_object_id(values[0]):
        raise fields.error("object_id", "32 hexadecimal digits")
    ref = PageRef(
        fields.text("object_id"),
        fields.number("start_offset"),
        fields.number("end_offset"),
        fields.number("max_timestamp", minimum=-1),
        fields.number("size"),
        fields.number("segments", minimum=1),
    )
    if ref.start_offset >= ref.end_offset:
        raise fields.error("end_offset", f"an offset above {ref.start_offset}")
    return ref


def _level(values: object) -> tuple[PageRef, ...]:
    return tuple(Fields(values, "a level of the manifest").items("pages", read_page_ref, maximum=LIST_ITEMS_MAX))


def _deleted_key(key: object, partition: TieredPartition) -> str:
    # A manifest that somebody else wrote must not have objects of other partitions deleted.
    if not isinstance(key, str) or not partition.has_object(key):
        raise TierCorrupt(f"the manifest of {partition}: {str(key)[:200]!r} is no segment or page of this partition")
    return key


def _decode_page(data: bytes, ref: PageRef, level: int, item: Callable[[object], Item]) -> tuple[Item, ...]:
    name = f"page {ref.object_id} of a manifest"
    fields = Fields(_decode(data, name), name)
    found = fields.number("level")
    if found != level:
        raise TierCorrupt(f"{name}: expected level {level}, found {found}")
    items = tuple(fields.items("items", item, maximum=PAGE_ITEMS))
    _check_order(items, name)
    actual = _reference(items, data) if items else None
    if actual != ref:
        raise TierCorrupt(f"{name}: expected {ref}, found {actual}")
    return items


def _reference(items: Sequence[PageRef] | Sequence[TieredSegment], data: bytes) -> PageRef:
    """Return the reference to a page with these items and bytes."""
    return PageRef(
        hashlib.sha256(data).hexdigest()[:32],
        items[0].start_offset,
        items[-1].end_offset,
        max(item.max_timestamp for item in items),
        sum(item.size for item in items),
        sum(item.segments if isinstance(item, PageRef) else 1 for item in items),
    )


def _check_order(items: Sequence[PageRef | TieredSegment], name: str) -> None:
    for before, after in pairwise(items):
        if before.end_offset > after.start_offset:
            raise TierCorrupt(f"{name}: offset {after.start_offset} follows a segment that ends at {before.end_offset}")


def _encode(values: dict[str, Any]) -> bytes:
    body = json.dumps(values, separators=(",", ":")).encode()
    return b"%s%08x\n%s" % (_HEADER, crc32c(body), body)


def _decode(data: bytes, name: str) -> object:
    body = data[_CRC_END + 1 :]
    if not data.startswith(_HEADER) or data[_CRC_END : _CRC_END + 1] != b"\n":
        raise TierCorrupt(f"{name}: expected {_HEADER.decode()!r} at its beginning, found {data[:40]!r}")
    if data[len(_HEADER) : _CRC_END] != b"%08x" % crc32c(body):
        raise TierCorrupt(f"{name}: its checksum is wrong")
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise TierCorrupt(f"{name} is no JSON: {error}") from None
