"""Threads and processes that run jobs beside the event loop."""
