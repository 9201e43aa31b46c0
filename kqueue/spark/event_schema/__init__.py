"""Event schemas as data: fields, event time, validation rules and aggregates. No pyspark."""

from kqueue.spark.event_schema.schema import EventSchema, Field, Type, seconds_of
from kqueue.spark.event_schema.toml_parser import BUILT_IN, FLIGHTS, load, parse

__all__ = ["BUILT_IN", "FLIGHTS", "EventSchema", "Field", "Type", "load", "parse", "seconds_of"]
