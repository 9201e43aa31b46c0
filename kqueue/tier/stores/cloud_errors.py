"""obstore's errors -> those of the contract, with a short text that has no secrets.

obstore has few classes: most answers of a server are a GenericError, whose text has the status and
the body. Both are read here.
"""

from __future__ import annotations

import re
from typing import Any

from kqueue.tier.errors import ObjectNotFound, TierCorrupt, TierDenied, TierError, TierUnavailable
from kqueue.tier.stores.cloud_address import CloudAddress
from kqueue.tier.stores.contract import one_line

DENIED = frozenset({
    "AccessDenied", "AuthenticationFailed", "AuthorizationFailure", "ExpiredToken", "InvalidAccessKeyId",
    "InvalidAuthenticationInfo", "InvalidToken", "RequestTimeTooSkewed", "SignatureDoesNotMatch",
    "TokenRefreshRequired", "XAdminUserNotFound",
})  # fmt: skip
"""Codes that services also send with other statuses than 401 and 403."""
RETRIABLE = frozenset({"RequestTimeout", "SlowDown", "OperationAborted", "ServerBusy"})
MISSING_BUCKETS = ("NoSuchBucket", "ContainerNotFound", "specified bucket does not exist")
MISSING_OBJECTS = frozenset({"", "NoSuchKey", "NoSuchVersion", "BlobNotFound"})
"""Codes of a 404 about an object. versitygw sends 404 also for an unknown access key: that must not
look like a missing object.
"""
_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>([A-Za-z0-9]{1,60})</Code>")
_MESSAGE = re.compile(r"<Message>(.*?)</Message>", re.DOTALL)
_QUERY = re.compile(r"(https?://[^\s?]+)\?\S*")
_NO_CREDENTIALS = re.compile(
    r"https?://(?:169\.254\.169\.254|metadata\.google)|\stoken request\b|\scredentials?(?:\s|$)", re.IGNORECASE
)
"""What asks the machine for its role. No key has these characters."""
HINTS = {
    "s3": "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE, or give the machine a role",
    "gs": "set GOOGLE_APPLICATION_CREDENTIALS, or give the machine a service account",
    "az": "set AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY, or give the machine an identity",
}


class CloudErrors:
    """Translates the errors of one store.

    Args: exceptions: the module `obstore.exceptions`.
    """

    def __init__(self, address: CloudAddress, exceptions: Any) -> None:
        self._address = address
        self._exceptions = exceptions

    def text(self, error: BaseException) -> str:
        """Return what the server or obstore said, without URLs' queries and secrets."""
        text = _said(error)
        code, message = _CODE.search(text), _MESSAGE.search(text)
        if code:
            status = _STATUS.search(text)
            text = f"{status[1] + ' ' if status else ''}{code[1]}{': ' + message[1] if message else ''}"
        text = _QUERY.sub(r"\1", text)
        for secret in self._address.secrets:
            text = text.replace(secret, "***")
        return one_line(text)

    def is_bucket_missing(self, error: BaseException) -> bool:
        """Return whether the bucket is missing, and not an object in it."""
        return any(code in _said(error) for code in MISSING_BUCKETS)

    def is_something_else_missing(self, error: BaseException) -> bool:
        """Return whether a 404 is not about the object: of a bucket, or of an access key."""
        said = _said(error)
        status, code = _STATUS.search(said), _CODE.search(said)
        if self.is_bucket_missing(error):
            return True
        return status is not None and status[1] == "404" and code is not None and code[1] not in MISSING_OBJECTS

    def translated(self, name: str, error: BaseException) -> TierError:
        """Return the contract's error for one of obstore's; `name`: of the object."""
        said, text = _said(error), self.text(error)
        match = _STATUS.search(said)
        status = int(match[1]) if match else None
        code_match = _CODE.search(said)
        code = code_match[1] if code_match else ""
        if self.is_bucket_missing(error):
            return TierError(f"{name}: there is no {self._address.scheme}://{self._address.bucket}: create it ({text})")
        if self._is_denied(error, status, code, said):
            return TierDenied(f"{name}: {text}; {HINTS[self._address.scheme]}")
        if isinstance(error, FileNotFoundError) and code in MISSING_OBJECTS:
            return ObjectNotFound(f"{name} does not exist")
        if status == 416:
            return TierCorrupt(f"{name} ends before the range: {text}")
        if status is None and "builder error" in said:
            return TierError(f"{name}: {text}: a URL can't be requested; http:// needs the option allow_http=true")
        if isinstance(error, self._exceptions.InvalidPathError):
            return TierError(f"{name}: an object that kqueue did not write is in the way of lists: {text}")
        if code in RETRIABLE or status is None or status in (408, 409, 425, 429) or (status >= 500 and status != 501):
            return TierUnavailable(f"{name}: {text}")
        return TierError(f"{name}: {text}")

    def _is_denied(self, error: BaseException, status: int | None, code: str, said: str) -> bool:
        if isinstance(error, (self._exceptions.PermissionDeniedError, self._exceptions.UnauthenticatedError)):
            return True
        if not code and _NO_CREDENTIALS.search(said):  # nothing was sent to the store itself
            return True
        return status in (401, 403) or code in DENIED


def _said(error: BaseException) -> str:
    """Return the text without the structures that obstore appends."""
    return str(error).partition("Debug source")[0][:10_000]
