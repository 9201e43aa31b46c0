"""Locations."""

from __future__ import annotations

from kqueue.spark.stores.store import Location, location_of


def test_a_text_is_a_location_and_secrets_are_not_shown() -> None:
    place = Location("s3://bucket/kept", {"AWS_SECRET_ACCESS_KEY": "abracadabra"})
    assert location_of("s3://bucket/kept").url == place.url
    assert location_of(place) is place
    assert "abracadabra" not in repr(place)
