from kqueue.schema_registry.schemas.json_schema.differences import COMPATIBLE, INCOMPATIBLE, Difference


def test_no_difference_is_both_compatible_and_not() -> None:
    assert COMPATIBLE.isdisjoint(INCOMPATIBLE)


def test_every_incompatible_difference_says_where_and_which_schema() -> None:
    for kind in INCOMPATIBLE:
        shown = Difference(kind, ("properties", "a{b}")).incompatibility().text("new", "old")
        assert "'#/properties/a{b}'" in shown
        assert "new" in shown
        assert "old" in shown
