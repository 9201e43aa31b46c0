"""Guard around a plugin's codec: every error or wrong result fails one batch, with the codec's
name.
"""

from __future__ import annotations

import logging
from typing import NoReturn

from kqueue.base import events
from kqueue.base.errors import CorruptBatch, PluginError
from kqueue.base.registry import RegistryEntry
from kqueue.records.codecs.contract import Buffer, Codec, Levels

logger = logging.getLogger("kqueue.records")
_ID_MAX = 7


class GuardedCodec:
    """Raises PluginError for every violation of the contract, and logs each kind once.

    A level outside the codec's levels means its default: it may be one of the built-in codec
    that it replaces.
    """

    def __init__(self, codec: Codec, entry: RegistryEntry[Codec]) -> None:
        """Raises: PluginError: no id from 1 to 7, a missing method, or invalid levels."""
        self._title = entry.title("codec")
        self._check_shape(codec)
        self._codec = codec
        self._logged: set[tuple[str, str]] = set()
        self.id: int = codec.id
        self.name: str = entry.name
        self.levels: Levels | None = codec.levels

    def compress(self, data: Buffer, level: int | None = None) -> bytes:
        try:
            packed = self._codec.compress(data, self._known(level))
        except Exception as error:
            self._failed("compress", error)
        return self._bytes(packed, "compress")

    def decompress(self, data: Buffer, limit: int) -> bytes:
        try:
            content = self._codec.decompress(data, limit)
        except CorruptBatch:
            raise
        except Exception as error:
            self._failed("decompress", error)
        if len(self._bytes(content, "decompress")) > limit:
            self._broke_contract(
                "decompress returned more than its limit", f"{len(content)} bytes, where {limit} are allowed"
            )
        return content

    def _known(self, level: int | None) -> int | None:
        levels = self.levels
        if level is None or levels is None or levels.lowest <= level <= levels.highest or level == levels.default:
            return level
        return None

    def _bytes(self, returned: bytes, method: str) -> bytes:
        if not isinstance(returned, bytes):
            self._broke_contract(f"{method} returned no bytes", repr(type(returned)))
        return returned

    def _failed(self, method: str, error: Exception) -> NoReturn:
        failed = PluginError(f"{self._title} failed in {method}", detail=f"{type(error).__name__}: {error}")
        self._tell(method, type(error).__name__, failed, error)
        raise failed from error

    def _broke_contract(self, what: str, detail: str) -> NoReturn:
        failed = PluginError(f"{self._title} broke its contract: {what}", detail=detail)
        self._tell(what, "", failed, None)
        raise failed

    def _tell(self, what: str, kind: str, failed: PluginError, error: Exception | None) -> None:
        if (what, kind) not in self._logged:
            self._logged.add((what, kind))
            events.CODEC_FAILED.log(logger, "%s", error=failed, exc_info=error)

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
