"""Shapes of events, as data: which fields an event has, when it happened, what makes it wrong, and
what is counted. Knows no Spark.
"""

from kqueue.spark.event_schema.schema import EventSchema, Field, Type, seconds_of
from kqueue.spark.event_schema.toml_parser import BUILT_IN, FLIGHTS, load, parse

__all__ = ["BUILT_IN", "FLIGHTS", "EventSchema", "Field", "Type", "load", "parse", "seconds_of"]
