"""The prefixes of the metadata store's keys under which access control is kept."""

from __future__ import annotations

ACLS_PREFIX, QUOTAS_PREFIX, SCRAM_PREFIX, TOKENS_PREFIX = "/acls/", "/quotas/", "/scram/", "/tokens/"
