"""AlterClientQuotas, DescribeClientQuotas: what clients may use of a broker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kqueue.client.calls.reassignments import Refusal
from kqueue.client.errors import BadAnswer
from kqueue.client.retry_policy import response_error
from kqueue.wire.apis import BY_MODULE
from kqueue.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    EntryDataInRequest,
    OpData,
)
from kqueue.wire.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)

EXACT, DEFAULT, ANY = 0, 1, 2
"""The kinds of match: an entity by its name, the default of a type, any of a type."""

EntityParts = Mapping[str, str | None]
"""Name by type, `user`, `client-id` or `ip`; None: the default."""


class QuotaAlteration(NamedTuple):
    """New bounds of one entity; None removes a quota."""

    entity: EntityParts
    changes: Mapping[str, float | None]


class QuotaEntry(NamedTuple):
    """An entity, and its own quotas."""

    entity: EntityParts
    quotas: Mapping[str, float]


class QuotaMatch(NamedTuple):
    """A filter of entities: those with `kind`, whose name matches. `name`: of an exact match
    only.
    """

    kind: str
    match: int
    name: str | None = None


class AlterQuotas:
    """AlterClientQuotas. Repeated, it has the same result: the outcome of each entity."""

    api = BY_MODULE["alter_client_quotas"]
    versions = (0, 1)
    repeatable = True

    def __init__(self, alterations: Sequence[QuotaAlteration], *, validate_only: bool = False) -> None:
        self.alterations = alterations
        self.validate_only = validate_only

    def request(self, version: int) -> AlterClientQuotasRequest:
        return AlterClientQuotasRequest(
            entries=[
                EntryDataInRequest(
                    entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()],
                    ops=[OpData(key=key, value=value or 0.0, remove=value is None) for key, value in changes.items()],
                )
                for entity, changes in self.alterations
            ],
            validate_only=self.validate_only,
        )

    def result(self, version: int, response: AlterClientQuotasResponse, broker: str) -> list[Refusal]:
        if len(response.entries) != len(self.alterations):
            raise BadAnswer(f"{broker} answered {len(response.entries)} of {len(self.alterations)} entities")
        return [Refusal(row.error_code, row.error_message) for row in response.entries]


class DescribeQuotas:
    """DescribeClientQuotas. Result: the entities that the matches find."""

    api = BY_MODULE["describe_client_quotas"]
    versions = (0, 1)
    repeatable = True

    def __init__(self, matches: Sequence[QuotaMatch], *, strict: bool = False) -> None:
        self.matches = matches
        self.strict = strict

    def request(self, version: int) -> DescribeClientQuotasRequest:
        return DescribeClientQuotasRequest(
            components=[
                ComponentData(entity_type=row.kind, match_type=row.match, match=row.name) for row in self.matches
            ],
            strict=self.strict,
        )

    def result(self, version: int, response: DescribeClientQuotasResponse, broker: str) -> list[QuotaEntry]:
        if response.error_code:
            raise response_error(response.error_code, self.api.name, broker, message=response.error_message)
        return [
            QuotaEntry(
                {part.entity_type: part.entity_name for part in row.entity},
                {value.key: value.value for value in row.values},
            )
            for row in response.entries or ()
        ]
