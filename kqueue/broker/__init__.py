"""The broker composes the engines (logs, groups, metadata) and knows no wire protocol,
socket or event loop.
"""
