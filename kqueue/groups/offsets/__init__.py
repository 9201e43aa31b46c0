"""Committed offsets of groups, and those of open transactions."""
