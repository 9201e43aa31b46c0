"""Membership of share groups: the broker assigns, and a partition may have several members
(KIP-932). What they read is in the package `kqueue.share`.
"""
