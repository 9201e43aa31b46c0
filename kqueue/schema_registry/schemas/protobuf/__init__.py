"""Protobuf: proto2, proto3 and editions, from text or descriptors, printed as Confluent's registry
prints, and compared by its rules.

`parser` reads text to `model`, `printer` writes it, `descriptors` turns it into Google's
descriptors and back, `symbols` finds what the names of types mean, `imports` other files. Google's
package checks each file as a compiler does.
"""

from kqueue.schema_registry.schemas.protobuf.schema import TYPE

__all__ = ["TYPE"]
