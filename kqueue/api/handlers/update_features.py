"""UpdateFeatures (key 57): raise or lower finalized feature levels (KIP-584).

Versions 0 to 2:

    0       a level per feature
    1       upgrade types, validate only (KIP-778)
    2       no results per feature (KIP-1022)

All changes of a request are made, or none; the first that is refused is the error of the response.
`allow_downgrade` of version 0 is ignored: that version can only raise levels, as in Kafka 4.3.
"""

from __future__ import annotations

from kqueue.api.access import on_cluster
from kqueue.api.errors import CodedError, code_of, message_of
from kqueue.api.request_context import RequestContext, error_of, wait_for
from kqueue.base.errors import InvalidRequest, InvalidUpdateVersion, KqueueError, StorageFailed
from kqueue.broker.metadata.features import PREFIX, FeatureLevels, FeatureUpdate, UpgradeType, levels_after
from kqueue.broker.purgatory import DelayedOperation
from kqueue.security.operations import AclOperation
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.update_features import (
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

VERSIONS = (0, 2)
ACCESS = (on_cluster(AclOperation.ALTER),)
VERSION_UPGRADE_TYPES = 1
UPDATES_MAX = 1_000
"""Updates in one request, so that a turn checks them all."""
LATE = "the levels were not stored in time; they may still change"
RESULT_MESSAGE = "NONE"
"""Message of a result without an error, as Kafka sends it."""


def handle(
    request: UpdateFeaturesRequest, context: RequestContext
) -> UpdateFeaturesResponse | DelayedOperation[UpdateFeaturesResponse]:
    """Respond when the levels are stored, or after `timeout_ms`."""
    updates = _updates(request, context.api_version)
    features = context.broker.metadata.features
    try:
        if request.validate_only:
            features.check(updates)
            return _respond(request, None)
        promise = features.update(updates)
    except KqueueError as error:
        return _respond(request, error)
    return wait_for(
        promise,
        lambda stored: _respond(request, error_of(stored, LATE)),
        context.change_deadline_ms(request.timeout_ms),
    )


def refuse_changes(
    request: UpdateFeaturesRequest, context: RequestContext, levels: FeatureLevels
) -> UpdateFeaturesResponse:
    """Respond as a broker whose features have these levels, where nothing may change them."""
    updates = _updates(request, context.api_version)
    try:
        if levels_after(levels, updates).items() - levels.finalized.items():
            raise InvalidUpdateVersion(f"{PREFIX}Levels can't be changed while the broker serves as an older Kafka.")
    except KqueueError as error:
        return _respond(request, error)
    return _respond(request, None)


def _updates(request: UpdateFeaturesRequest, api_version: int) -> list[FeatureUpdate]:
    if len(request.feature_updates) > UPDATES_MAX:
        raise InvalidRequest(f"{len(request.feature_updates)} updates in one request, at most {UPDATES_MAX} are taken")
    typed = api_version >= VERSION_UPGRADE_TYPES
    return [
        FeatureUpdate(row.feature, row.max_version_level, row.upgrade_type if typed else UpgradeType.UPGRADE)
        for row in request.feature_updates
    ]


def error_response(request: UpdateFeaturesRequest, version: int, error: BaseException) -> UpdateFeaturesResponse:
    """Return `error` for the whole request."""
    return _respond(request, error)


def _respond(request: UpdateFeaturesRequest, error: BaseException | None) -> UpdateFeaturesResponse:
    if isinstance(error, StorageFailed):
        error = CodedError(ErrorCode.FEATURE_UPDATE_FAILED, f"the levels could not be stored: {error.summary}")
    if error is not None:
        return UpdateFeaturesResponse(error_code=code_of(error), error_message=message_of(error))
    results = [
        UpdatableFeatureResult(feature=row.feature, error_message=RESULT_MESSAGE) for row in request.feature_updates
    ]
    return UpdateFeaturesResponse(error_message=None, results=results)
