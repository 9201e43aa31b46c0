"""Access control: who may do what on this broker, and how much of it.

`BrokerSecurity` holds the parts: ACLs, SCRAM users, delegation tokens and client quotas, each
kept in the metadata store under its own prefix (`security_keys`) and decided from memory.
Called by `network` (authentication), `api` (authorization) and the admin handlers. Imports
`metadata` and the rules in `kqueue.security`; knows no topics.
"""
