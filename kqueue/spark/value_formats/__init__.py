"""Values as columns: Avro, Protobuf and JSON Schema, by a schema or by a registry of schemas.

`opening` finds the schema on the driver; `decoder` decodes values in tasks. No pyspark. Needs the
extra `schemas`.
"""
