"""Object stores: the contract `TierStore`, and the stores behind URLs.

`address.open_store` opens the store of a URL: `memory` (one process), `folder` (a folder that all
brokers reach), `cloud` (S3, Google Cloud Storage, Azure) or a plugin's. `retries.RetryingStore`
wraps any of them with retries and a circuit breaker. Nothing here knows what the objects hold.
"""
