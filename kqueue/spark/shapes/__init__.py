"""Shapes of events, as data: which fields an event has, when it happened, what makes it wrong, and
what is counted. Knows no Spark.
"""

from kqueue.spark.shapes.reading import BUILT_IN, FLIGHTS, load, parse
from kqueue.spark.shapes.shape import Field, Shape, Type, seconds_of

__all__ = ["BUILT_IN", "FLIGHTS", "Field", "Shape", "Type", "load", "parse", "seconds_of"]
