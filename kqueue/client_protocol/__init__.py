"""The client's side of the protocol, without I/O: what is sent, and what a response says.

    versions          ApiVersions, and the version of each request
    requests          messages <-> frames, with their correlation ids
    authentication    SASL, from the handshake to the end of the mechanism

`client.connection` runs it over a blocking socket, `network.peer_channel` on the event loop.
Imports `wire` and the client's side of `security`.
"""
