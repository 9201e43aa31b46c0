"""One module per request that the client makes: how it is asked, and what its answer says."""
