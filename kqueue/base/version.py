"""The version of kqueue."""

__version__ = "0.1.0"
