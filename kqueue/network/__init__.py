"""Connections: sockets, framing, turns, send queues and dispatch."""
