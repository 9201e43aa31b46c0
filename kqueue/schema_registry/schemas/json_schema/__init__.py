"""JSON Schema, drafts 4, 6, 7, 2019-09 and 2020-12: checked by their meta-schemas, stored on one
line, and compared by the rules of Confluent's registry.

`documents` finds what a ``$ref`` means among the references; nothing is ever fetched. `views` are
the schemas as comparisons see them, one kind each. `differences` is the table of the differences.
"""

from kqueue.schema_registry.schemas.json_schema.schema import TYPE

__all__ = ["TYPE"]
