"""Where a log goes on whose records are in the tier: of a leader that lost its disk, of a follower
that comes to its leader's local log start.
"""

from __future__ import annotations

from typing import NamedTuple

from kqueue.log.formats.producer_snapshot import encode_snapshot
from kqueue.log.log_cut import RestartState
from kqueue.tier.errors import TierCorrupt
from kqueue.tier.manifest import Manifest
from kqueue.tier.reader import TierReader


class Restart(NamedTuple):
    """The offset at which a log goes on, and its state there."""

    offset: int
    state: RestartState


def restart_at_end(reader: TierReader, manifest: Manifest) -> Restart | None:
    """Return where the tier's part of a log ends, as its manifest was read last; None: it has none.
    Blocks.
    """
    root = manifest.root
    end = max(manifest.end_offset, root.log_start_offset)
    if not end:
        return None
    if not root.count:  # all has expired: only the offsets go on
        return Restart(end, RestartState(end, [], b""))
    if end > manifest.end_offset:  # so it has, up to records that were deleted before they were copied
        producers = reader.producers_at(manifest, manifest.end_offset)
        return Restart(end, RestartState(end, [], encode_snapshot(producers)))
    return Restart(end, _state_at(reader, manifest, end))


def restart_at(reader: TierReader, manifest: Manifest, offset: int) -> RestartState:
    """Return the state of the log at `offset`, which is within the tier or at its end. Blocks.

    Raises: TierCorrupt: the tier ends before. TierError.
    """
    if offset > manifest.end_offset:
        raise TierCorrupt(f"{manifest.partition}: the tier ends at {manifest.end_offset}, expected it to have {offset}")
    return _state_at(reader, manifest, offset)


def _state_at(reader: TierReader, manifest: Manifest, offset: int) -> RestartState:
    start = min(max(manifest.start_offset, manifest.root.log_start_offset), offset)
    producers = encode_snapshot(reader.producers_at(manifest, offset))
    return RestartState(start, reader.epochs_at(manifest, offset), producers)
