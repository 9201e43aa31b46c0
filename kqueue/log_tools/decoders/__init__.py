"""Decoders from the bytes of keys and values to text for people."""

from __future__ import annotations

from kqueue.log_tools.decoders.values import VALUE_DECODERS, Decoder, record_decoder, text_decoder, value_decoder
from kqueue.log_tools.errors import DecodeError

__all__ = ["VALUE_DECODERS", "DecodeError", "Decoder", "record_decoder", "text_decoder", "value_decoder"]
