"""SASL mechanisms as state machines from bytes to bytes, of both sides: PLAIN, SCRAM, OAUTHBEARER.
They know no socket, and no store: what they need of accounts is looked up by functions.
"""
