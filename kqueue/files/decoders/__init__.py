"""From the bytes of keys and values to text, for people."""

from __future__ import annotations

from kqueue.files.decoders.contract import DecodeError, Decoder
from kqueue.files.decoders.values import VALUE_DECODERS, both, text_decoder, value_decoder

__all__ = ["VALUE_DECODERS", "DecodeError", "Decoder", "both", "text_decoder", "value_decoder"]
