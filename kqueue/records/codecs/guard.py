"""What stands between kqueue and a codec that is not its own: whatever that does wrong fails the one batch, with its name."""

from __future__ import annotations

from typing import NoReturn

from kqueue.base.errors import CorruptBatch, PluginError
from kqueue.base.registry import Entry
from kqueue.records.codecs.contract import Buffer, Codec, Levels

_ID_MAX = 7


class GuardedCodec:
    """Raises PluginError for all that `codec` does beside the contract.

    A level that the codec does not have, such as one of the built-in in whose place it serves, means its default.
    """

    def __init__(self, codec: Codec, entry: Entry[Codec]) -> None:
        """Raises PluginError: it has no id from 1 to 7, no method or levels as they should be."""
        self._title = f"codec {entry.name!r} of {entry.origin}"
        self._check_shape(codec)
        self._codec = codec
        self.id: int = codec.id
        self.name: str = entry.name
        self.levels: Levels | None = codec.levels

    def compress(self, data: Buffer, level: int | None = None) -> bytes:
        try:
            packed = self._codec.compress(data, self._known(level))
        except Exception as error:
            self._failed(f"could not compress {len(data)} bytes", error)
        return self._bytes(packed, "compress")

    def decompress(self, data: Buffer, limit: int) -> bytes:
        try:
            content = self._codec.decompress(data, limit)
        except CorruptBatch:
            raise
        except Exception as error:
            self._failed(f"could not decompress {len(data)} bytes", error)
        if len(self._bytes(content, "decompress")) > limit:
            raise PluginError(f"{self._title} broke its contract: decompress returned {len(content)} bytes under a limit of {limit}")
        return content

    def _known(self, level: int | None) -> int | None:
        levels = self.levels
        if level is None or levels is None or levels.lowest <= level <= levels.highest or level == levels.default:
            return level
        return None

    def _bytes(self, found: object, method: str) -> bytes:
        if not isinstance(found, bytes):
            raise PluginError(f"{self._title} broke its contract: {method} returned {type(found).__name__}, expected bytes")
        return found

    def _failed(self, what: str, error: Exception) -> NoReturn:
        raise PluginError(f"{self._title} {what}", detail=f"{type(error).__name__}: {error}") from error

    def _check_shape(self, codec: Codec) -> None:
        if isinstance(codec, type):
            raise PluginError(f"{self._title}: expected an instance, found the class {codec.__name__}")
        id, levels = getattr(codec, "id", None), getattr(codec, "levels", None)
        if not isinstance(id, int) or not 1 <= id <= _ID_MAX:
            raise PluginError(f"{self._title}: expected an id from 1 to {_ID_MAX}, found {id!r}")
        for method in ("compress", "decompress"):
            if not callable(getattr(codec, method, None)):
                raise PluginError(f"{self._title}: expected a method {method}, found none")
        if levels is not None and not isinstance(levels, Levels):
            raise PluginError(f"{self._title}: expected Levels or None as levels, found {levels!r}")
