"""What a dump is to show."""

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

    `records`: go into the batches; `contents`: show keys and values too; `skip_metadata`: show
    nothing else of them; `decode`: keys and values to text; `sanity_only`, `verify_only`: check
    indexes without showing their entries; `max_message_size`: how much of the log an index entry is
    looked up in; `max_bytes`: how much of a log is read, 2**31 - 1: all; `form`: whose lines.
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
        return self.max_bytes >= MAX_BYTES
