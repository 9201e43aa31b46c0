"""Who clients are, and what they may do: principals, access control, authentication mechanisms,
quotas. It knows no wire protocol, socket or store.
"""
