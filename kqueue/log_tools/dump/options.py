"""The options of a dump."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kqueue.log_tools.decoders import Decoder, text_decoder

Form = Literal["kafka", "legacy"]
MAX_MESSAGE_SIZE = 5 * 1024 * 1024
MAX_BYTES = 2**31 - 1


@dataclass(frozen=True)
class DumpOptions:
    """The options of Kafka's tool; sizes in bytes.

    `records`: show records. `contents`: show keys and values too. `skip_metadata`: show nothing
    else of records. `decode`: from record to text. `sanity_only`, `verify_only`: check indexes
    without showing their entries. `max_message_size`: bytes of log in which the batch of an index
    entry is looked up. `max_bytes`: bytes of a log that are read; 2**31 - 1: all. `form`: the
    format of the lines.
    """

    records: bool = False
    contents: bool = False
    skip_metadata: bool = False
    decode: Decoder = text_decoder
    sanity_only: bool = False
    verify_only: bool = False
    max_message_size: int = MAX_MESSAGE_SIZE
    max_bytes: int = MAX_BYTES
    form: Form = "kafka"

    @property
    def whole_log(self) -> bool:
        """Whether logs are read to their end."""
        return self.max_bytes >= MAX_BYTES
