"""Avro: parsed with names resolved, printed as Apache Avro prints, compared by its rules.

Source: the Avro specification 1.12, "Schema Resolution".
"""

from kqueue.schema_registry.schemas.avro.schema import TYPE

__all__ = ["TYPE"]
