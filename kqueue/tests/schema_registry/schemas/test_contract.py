from kqueue.schema_registry.schemas import Incompatibility


def test_reason_is_shown_with_the_names_of_both_schemas() -> None:
    reason = Incompatibility("K", "/a", "The {reader} lacks {{x}} of the {writer}")
    assert reason.text("new", "old") == "{errorType:'K', description:'The new lacks {x} of the old'}"
    assert reason._replace(detail="d").text("a", "b").endswith(", additionalInfo:'d'}")
