"""Compression codecs, by name and by the id in a batch's attributes."""

from __future__ import annotations

from kqueue.base.registry import Registry
from kqueue.records.codecs.contract import Buffer, Codec, Levels
from kqueue.records.codecs.guarded_codec import GuardedCodec
from kqueue.records.codecs.gzip import GzipCodec
from kqueue.records.codecs.lz4 import Lz4Codec
from kqueue.records.codecs.none import NoneCodec
from kqueue.records.codecs.snappy import SnappyCodec
from kqueue.records.codecs.zstd import ZstdCodec

__all__ = ["CODECS", "Buffer", "Codec", "Levels"]

CODECS: Registry[Codec] = Registry("kqueue.codecs", "codec", guard=GuardedCodec)

_BUILT_IN: tuple[Codec, ...] = (NoneCodec(), GzipCodec(), SnappyCodec(), Lz4Codec(), ZstdCodec())
for _codec in _BUILT_IN:
    CODECS.add(_codec.name, _codec, id=_codec.id)
