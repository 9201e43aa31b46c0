"""Errors, clock, settings, plugin registry, timers: for all packages; standard library only."""
