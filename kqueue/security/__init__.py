"""The identity of clients, and their rights: principals, access control, authentication mechanisms,
quotas. It knows no wire protocol, socket or store.
"""
