"""Keys that are wrong, and profiles: versitygw checks signatures, moto does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from compat_tests.tiered.servers import ACCESS_KEY, SECRET_KEY, Server
from kqueue.tier.errors import TierDenied, TierError
from kqueue.tier.stores.address import open_store

VARIABLES = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_REGION")


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("wrong", [{"secret_access_key": "wrong-secret-1"}, {"access_key_id": "unknown-key"}])
def test_wrong_keys_are_denied_and_not_told(versity: Server, prefix: str, wrong: dict[str, str]) -> None:
    store = open_store(versity.url(prefix, **wrong))
    for call in (
        lambda: store.put("a", [b"1"], 1),
        lambda: store.put_if("a", b"1", None),
        lambda: store.get("a", max_bytes=1),
        lambda: store.get_range("a", 0, 1),
        lambda: list(store.list("")),
        lambda: store.list_folders(""),
        lambda: store.delete(["a"]),
    ):
        with pytest.raises(TierDenied, match="set AWS_ACCESS_KEY_ID") as failure:
            call()
        for secret in (SECRET_KEY, *wrong.values()):
            assert secret not in str(failure.value)


def test_keys_of_the_environment_are_used(versity: Server, prefix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    url = versity.url(prefix, access_key_id="", secret_access_key="")
    assert SECRET_KEY not in url
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    open_store(url).put("a", [b"1"], 1)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong-secret-1")
    with pytest.raises(TierDenied):
        open_store(url).get("a", max_bytes=1)


def test_keys_of_a_profile_are_used(
    versity: Server, prefix: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "credentials"
    path.write_text(
        f"[mine]\naws_access_key_id = {ACCESS_KEY}\naws_secret_access_key = {SECRET_KEY}\n"
        "[wrong]\naws_access_key_id = other\naws_secret_access_key = wrong-secret-1\n"
    )
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(path))
    url = versity.url(prefix, access_key_id="", secret_access_key="")
    open_store(f"{url}&profile=mine").put("a", [b"1"], 1)
    monkeypatch.setenv("AWS_PROFILE", "mine")
    assert open_store(url).get("a", max_bytes=1).body == b"1"
    with pytest.raises(TierDenied) as failure:
        open_store(f"{url}&profile=wrong").get("a", max_bytes=1)
    assert "wrong-secret-1" not in str(failure.value)
    with pytest.raises(TierError, match="the profile 'none-such' can't be used"):
        open_store(f"{url}&profile=none-such")
