from __future__ import annotations

from typing import Any

from kqueue.api.request_context import RequestContext
from kqueue.api.token_expiry import NO_TIME, TIMEOUT_MS, expiry_response
from kqueue.base.errors import StorageFailed
from kqueue.base.promise import Promise
from kqueue.broker.purgatory import DelayedOperation
from kqueue.security.errors import TokenNotFound
from kqueue.security.principals import ANONYMOUS
from kqueue.testing.simulation import Simulation
from kqueue.tests.api.token_client import ANN
from kqueue.tests.tables import for_each
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.expire_delegation_token import ExpireDelegationTokenResponse
from kqueue.wire.messages.renew_delegation_token import RenewDelegationTokenResponse

each_response = for_each("response", [ExpireDelegationTokenResponse, RenewDelegationTokenResponse])


def context_of(sim: Simulation) -> RequestContext:
    return RequestContext(sim.broker, 2, principal=ANN)


@each_response
def test_pending_change_is_answered_when_it_is_stored(response: Any) -> None:
    sim, promise = Simulation({"kqueue.storage": "memory"}), Promise[int]()
    operation = expiry_response(context_of(sim), lambda: promise, response)
    assert isinstance(operation, DelayedOperation)
    assert operation.try_complete(False) is None
    promise.resolve(1234)
    answer = operation.try_complete(False)
    assert isinstance(answer, response)
    assert (answer.error_code, answer.expiry_timestamp_ms) == (0, 1234)


@each_response
def test_change_that_is_not_stored_in_time_is_refused(response: Any) -> None:
    sim = Simulation({"kqueue.storage": "memory"})
    operation = expiry_response(context_of(sim), Promise[int], response)
    assert isinstance(operation, DelayedOperation)
    assert operation.deadline_ms == sim.broker.scheduler.clock.monotonic_ms() + TIMEOUT_MS
    answer = operation.try_complete(True)
    assert (answer.error_code, answer.expiry_timestamp_ms) == (ErrorCode.REQUEST_TIMED_OUT, NO_TIME)


@each_response
def test_change_that_can_not_be_stored_has_its_error(response: Any) -> None:
    failed = Promise[int]()
    failed.fail(StorageFailed("no disk"))
    answer = expiry_response(context_of(Simulation({"kqueue.storage": "memory"})), lambda: failed, response)
    assert (answer.error_code, answer.expiry_timestamp_ms) == (ErrorCode.KAFKA_STORAGE_ERROR, NO_TIME)


@each_response
def test_refused_change_and_unknown_client_have_their_errors(response: Any) -> None:
    def change() -> Promise[int]:
        raise TokenNotFound("no such token")

    context = context_of(Simulation({"kqueue.storage": "memory"}))
    answer = expiry_response(context, change, response)
    assert (answer.error_code, answer.expiry_timestamp_ms) == (ErrorCode.DELEGATION_TOKEN_NOT_FOUND, NO_TIME)
    anonymous = RequestContext(context.broker, 2, principal=ANONYMOUS)
    assert expiry_response(anonymous, change, response).error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
