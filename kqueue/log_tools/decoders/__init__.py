"""Decoders from the bytes of keys and values to text for people."""

from __future__ import annotations

from kqueue.log_tools.decoders.contract import DecodeError, Decoder
from kqueue.log_tools.decoders.values import VALUE_DECODERS, record_decoder, text_decoder, value_decoder

__all__ = ["VALUE_DECODERS", "DecodeError", "Decoder", "record_decoder", "text_decoder", "value_decoder"]
