from kqueue.schema_registry.schemas.avro.model import AvroName


def test_name_is_split_at_its_last_dot() -> None:
    assert (AvroName("a.b.C", ()).namespace, AvroName("a.b.C", ()).simple) == ("a.b", "C")
    assert (AvroName("C", ()).namespace, AvroName("C", ()).simple) == ("", "C")
