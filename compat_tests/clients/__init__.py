"""Stock clients against a real socket: one suite of scenarios, one adapter per client, one tox
environment per client version.
"""
