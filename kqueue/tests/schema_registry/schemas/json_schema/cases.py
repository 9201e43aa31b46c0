"""Pairs of JSON Schemas, and which of them takes all values that the other one took."""

from __future__ import annotations

from typing import Any, NamedTuple

NEWEST = "https://json-schema.org/draft/2020-12/schema"


class JsonCase(NamedTuple):
    """`backward`: new takes what old took; `forward`: the other way round.

    `kinds`: the incompatible differences of new as the reader, with their paths.
    """

    about: str
    old: Any
    new: Any
    backward: bool
    forward: bool
    kinds: tuple[str, ...] = ()


def string(**more: Any) -> dict[str, Any]:
    return {"type": "string", **more}


def number(**more: Any) -> dict[str, Any]:
    return {"type": "number", **more}


def integer(**more: Any) -> dict[str, Any]:
    return {"type": "integer", **more}


def obj(properties: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {"type": "object", **({} if properties is None else {"properties": properties}), **more}


def closed(properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    return obj(properties, additionalProperties=False, **more)


def array(items: Any = None, **more: Any) -> dict[str, Any]:
    return {"type": "array", **({} if items is None else {"items": items}), **more}


def newest(schema: dict[str, Any]) -> dict[str, Any]:
    return {"$schema": NEWEST, **schema}


A = {"a": string()}
AB = {"a": string(), "b": integer()}
S_PATTERN = {"^s_": string()}

SIMPLE = (
    JsonCase("the same type", string(), string(), True, True),
    JsonCase("another type", string(), number(), False, False, ("TYPE_CHANGED #/",)),
    JsonCase("an object becomes an array", obj(), array(), False, False, ("TYPE_CHANGED #/",)),
    JsonCase("integer to number", integer(), number(), True, False),
    JsonCase("anything may follow nothing", False, string(), True, False),
    JsonCase("anything is followed by everything", string(), {}, True, False),
    JsonCase("true and the empty schema", True, {}, True, True),
    JsonCase(
        "texts for people", {"title": "a", **string()}, {"title": "b", "description": "c", **string()}, True, True
    ),
    JsonCase("another default", string(default="a"), string(default="b"), True, True),
    JsonCase("another $id", string(**{"$id": "http://e.org/a"}), string(**{"$id": "http://e.org/b"}), True, True),
    JsonCase(
        "bytes of Kafka Connect", number(**{"connect.type": "bytes"}), string(**{"connect.type": "bytes"}), True, True
    ),
    JsonCase("maxLength is larger", string(maxLength=1), string(maxLength=2), True, False),
    JsonCase("maxLength is added", string(), string(maxLength=2), False, True, ("MAX_LENGTH_ADDED #/maxLength",)),
    JsonCase(
        "minLength is larger",
        string(minLength=1),
        string(minLength=2),
        False,
        True,
        ("MIN_LENGTH_INCREASED #/minLength",),
    ),
    JsonCase("minLength is removed", string(minLength=1), string(), True, False),
    JsonCase("a pattern is added", string(), string(pattern="a"), False, True, ("PATTERN_ADDED #/pattern",)),
    JsonCase("another pattern", string(pattern="a"), string(pattern="b"), False, False, ("PATTERN_CHANGED #/pattern",)),
    JsonCase("another format", string(format="date"), string(format="time"), True, True),
    JsonCase("maximum is smaller", number(maximum=2), number(maximum=1), False, True, ("MAXIMUM_DECREASED #/maximum",)),
    JsonCase("maximum is removed", number(maximum=2), number(), True, False),
    JsonCase("minimum is smaller", number(minimum=2), number(minimum=1.5), True, False),
    JsonCase("minimum is added", number(), number(minimum=1), False, True, ("MINIMUM_ADDED #/minimum",)),
    JsonCase(
        "exclusiveMaximum is smaller",
        number(exclusiveMaximum=2),
        number(exclusiveMaximum=1),
        False,
        True,
        ("EXCLUSIVE_MAXIMUM_DECREASED #/exclusiveMaximum",),
    ),
    JsonCase(
        "exclusiveMinimum is larger",
        number(exclusiveMinimum=1),
        number(exclusiveMinimum=2),
        False,
        True,
        ("EXCLUSIVE_MINIMUM_INCREASED #/exclusiveMinimum",),
    ),
    JsonCase("multiples of a divisor", number(multipleOf=10), number(multipleOf=5), True, False),
    JsonCase("multiples of a fraction", number(multipleOf=1), number(multipleOf=0.1), True, False),
    JsonCase(
        "multiples of a multiple",
        number(multipleOf=5),
        number(multipleOf=10),
        False,
        True,
        ("MULTIPLE_OF_EXPANDED #/multipleOf",),
    ),
    JsonCase(
        "multiples of something else",
        number(multipleOf=5),
        number(multipleOf=7),
        False,
        False,
        ("MULTIPLE_OF_CHANGED #/multipleOf",),
    ),
    JsonCase("a value is added to an enum", {"enum": ["a"]}, {"enum": ["b", "a"]}, True, False),
    JsonCase(
        "a value is removed from an enum",
        {"enum": ["a", {"x": 1, "y": 2}]},
        {"enum": [{"y": 2, "x": 1}]},
        False,
        True,
        ("ENUM_ARRAY_NARROWED #/enum",),
    ),
    JsonCase(
        "other values of an enum",
        {"enum": ["a", "b"]},
        {"enum": ["a", "c"]},
        False,
        False,
        ("ENUM_ARRAY_CHANGED #/enum",),
    ),
    JsonCase("an enum is removed from a type", string(enum=["a"]), string(), True, False),
    JsonCase("another constant", {"const": 1}, {"const": 2}, False, False, ("ENUM_ARRAY_CHANGED #/const",)),
    JsonCase("less must not match", {"not": number()}, {"not": integer()}, True, False),
    JsonCase("more must not match", {"not": integer()}, {"not": number()}, False, True, ("NOT_TYPE_EXTENDED #/not",)),
)

OBJECTS = (
    JsonCase(
        "a property is added to an open model",
        obj(A),
        obj(AB),
        False,
        True,
        ("OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL #/properties/b",),
    ),
    JsonCase(
        "a required property is added to an open model",
        obj(A),
        obj(AB, required=["b"]),
        False,
        True,
        ("REQUIRED_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL #/properties/b",),
    ),
    JsonCase("a property that takes anything is added to an open model", obj(A), obj({**A, "b": {}}), True, True),
    JsonCase("an optional property is added to a closed model", closed(A), closed(AB), True, False),
    JsonCase(
        "a required property is added to a closed model",
        closed(A),
        closed(AB, required=["b"]),
        False,
        False,
        ("REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL #/properties/b",),
    ),
    JsonCase(
        "a required property with a default is added to a closed model",
        closed(A),
        closed({**A, "b": integer(default=1)}, required=["b"]),
        True,
        False,
    ),
    JsonCase(
        "a property is removed from a closed model",
        closed(AB),
        closed(A),
        False,
        True,
        ("PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL #/properties/b",),
    ),
    JsonCase(
        "a property that takes nothing is removed from a closed model", closed({**A, "b": False}), closed(A), True, True
    ),
    JsonCase(
        "a property is covered by additional ones",
        obj(A, additionalProperties=integer()),
        obj(AB, additionalProperties=integer()),
        True,
        True,
    ),
    JsonCase(
        "a property is not covered by additional ones",
        obj(A, additionalProperties=string()),
        obj(AB, additionalProperties=string()),
        False,
        False,
        ("TYPE_CHANGED #/properties/b", "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL #/properties/b"),
    ),
    JsonCase(
        "a property is covered by a pattern",
        closed(A, patternProperties=S_PATTERN),
        closed({**A, "s_1": string()}, patternProperties=S_PATTERN),
        True,
        True,
    ),
    JsonCase(
        "a removed property is wider than its pattern",
        closed({"s_1": string()}),
        closed({}, patternProperties={"^s_": string(maxLength=3)}),
        False,
        True,
        (
            "MAX_LENGTH_ADDED #/properties/s_1/maxLength",
            "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL #/properties/s_1",
        ),
    ),
    JsonCase(
        "additional properties are refused",
        obj(),
        obj(additionalProperties=False),
        False,
        True,
        ("ADDITIONAL_PROPERTIES_REMOVED #/additionalProperties",),
    ),
    JsonCase(
        "additional properties get a schema",
        obj(additionalProperties=True),
        obj(additionalProperties=number()),
        False,
        True,
        ("ADDITIONAL_PROPERTIES_NARROWED #/additionalProperties",),
    ),
    JsonCase(
        "additional properties of another type",
        obj(additionalProperties=string()),
        obj(additionalProperties=number()),
        False,
        False,
        ("TYPE_CHANGED #/additionalProperties",),
    ),
    JsonCase(
        "a property becomes required",
        obj(A),
        obj(A, required=["a"]),
        False,
        True,
        ("REQUIRED_ATTRIBUTE_ADDED #/required/a",),
    ),
    JsonCase(
        "a property with a default becomes required",
        obj({"a": string(default="")}),
        obj({"a": string(default="")}, required=["a"]),
        True,
        True,
    ),
    JsonCase("what is required has no schema", obj(A), obj(A, required=["z"]), True, True),
    JsonCase(
        "a property of another type", obj(A), obj({"a": number()}), False, False, ("TYPE_CHANGED #/properties/a",)
    ),
    JsonCase(
        "a nested property is narrowed",
        obj({"o": obj({"n": number()})}),
        obj({"o": obj({"n": integer()})}),
        False,
        True,
        ("TYPE_NARROWED #/properties/o/properties/n",),
    ),
    JsonCase("more properties may be there", obj(maxProperties=1), obj(maxProperties=2), True, False),
    JsonCase(
        "more properties have to be there",
        obj(minProperties=1),
        obj(minProperties=2),
        False,
        True,
        ("MIN_PROPERTIES_INCREASED #/minProperties",),
    ),
    JsonCase(
        "a property needs another one",
        obj(AB),
        obj(AB, dependencies={"a": ["b"]}),
        False,
        True,
        ("DEPENDENCY_ARRAY_ADDED #/dependencies/a",),
    ),
    JsonCase(
        "a property needs one more",
        obj(dependencies={"a": ["b"]}),
        obj(dependencies={"a": ["b", "c"]}),
        False,
        True,
        ("DEPENDENCY_ARRAY_EXTENDED #/dependencies/a",),
    ),
    JsonCase(
        "a property needs a schema",
        obj(),
        obj(dependencies={"a": obj(A)}),
        False,
        True,
        ("DEPENDENCY_SCHEMA_ADDED #/dependencies/a",),
    ),
    JsonCase(
        "a needed schema is narrowed",
        obj(dependencies={"a": {"maximum": 2}}),
        obj(dependencies={"a": {"maximum": 1}}),
        False,
        True,
        ("MAXIMUM_DECREASED #/dependencies/a/maximum",),
    ),
    JsonCase(
        "2020-12: a property needs another one",
        newest(obj()),
        newest(obj(dependentRequired={"a": ["b"]})),
        False,
        True,
        ("DEPENDENCY_ARRAY_ADDED #/dependencies/a",),
    ),
    JsonCase(
        "2020-12: unevaluated properties are refused",
        newest(obj()),
        newest(obj(unevaluatedProperties=False)),
        False,
        True,
        ("UNEVALUATED_PROPERTIES_REMOVED #/unevaluatedProperties",),
    ),
    JsonCase(
        "2020-12: a property is added where unevaluated ones are refused",
        newest(obj(A, unevaluatedProperties=False)),
        newest(obj(AB, unevaluatedProperties=False)),
        True,
        False,
    ),
)

ARRAYS = (
    JsonCase("items get a schema", array(), array(string()), False, True, ("SCHEMA_ADDED #/items",)),
    JsonCase("items are narrowed", array(number()), array(integer()), False, True, ("TYPE_NARROWED #/items",)),
    JsonCase(
        "maxItems is smaller", array(maxItems=2), array(maxItems=1), False, True, ("MAX_ITEMS_DECREASED #/maxItems",)
    ),
    JsonCase("minItems is removed", array(minItems=2), array(), True, False),
    JsonCase(
        "items have to be unique", array(), array(uniqueItems=True), False, True, ("UNIQUE_ITEMS_ADDED #/uniqueItems",)
    ),
    JsonCase(
        "the first item is of another type",
        array([string()]),
        array([number()]),
        False,
        False,
        ("TYPE_CHANGED #/items/0",),
    ),
    JsonCase(
        "an item is added to an open model",
        array([string()]),
        array([string(), number()]),
        False,
        True,
        ("ITEM_ADDED_TO_OPEN_CONTENT_MODEL #/items/1",),
    ),
    JsonCase(
        "an item that takes anything is added to an open model", array([string()]), array([string(), True]), True, True
    ),
    JsonCase(
        "an item is added to a closed model",
        array([string()], additionalItems=False),
        array([string(), number()], additionalItems=False),
        True,
        False,
    ),
    JsonCase(
        "an item is not covered by additional ones",
        array([string()], additionalItems=string()),
        array([string(), number()], additionalItems=string()),
        False,
        False,
        ("TYPE_CHANGED #/items/1", "ITEM_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL #/items/1"),
    ),
    JsonCase(
        "additional items are refused",
        array([string()]),
        array([string()], additionalItems=False),
        False,
        True,
        ("ADDITIONAL_ITEMS_REMOVED #/additionalItems",),
    ),
    JsonCase(
        "2020-12: an item is added to a closed model",
        newest(array(prefixItems=[string()], items=False)),
        newest(array(prefixItems=[string(), number()], items=False)),
        True,
        False,
    ),
    JsonCase(
        "2020-12: the first item is narrowed",
        newest(array(prefixItems=[number()])),
        newest(array(prefixItems=[integer()])),
        False,
        True,
        ("TYPE_NARROWED #/items/0",),
    ),
    JsonCase(
        "2020-12: more items have to match",
        newest(array(contains=string(), minContains=1)),
        newest(array(contains=string(), minContains=2)),
        False,
        True,
        ("MIN_CONTAINS_INCREASED #/minContains",),
    ),
)

COMBINED = (
    JsonCase("a type becomes nullable", string(), {"type": ["string", "null"]}, True, False),
    JsonCase(
        "a type is removed from a list",
        {"type": ["string", "null"]},
        {"type": ["string"]},
        False,
        True,
        ("SUM_TYPE_NARROWED #/",),
    ),
    JsonCase("a list of one type", string(), {"type": ["string"]}, True, True),
    JsonCase("a type becomes one of two", string(maxLength=3), {"oneOf": [number(), string()]}, True, False),
    JsonCase(
        "a type becomes a product", string(), {"allOf": [string(), {"maxLength": 2}]}, False, True, ("TYPE_CHANGED #/",)
    ),
    JsonCase("a sum is extended", {"oneOf": [string()]}, {"oneOf": [number(), string()]}, True, False),
    JsonCase(
        "a sum is narrowed",
        {"anyOf": [number(), string()]},
        {"anyOf": [string()]},
        False,
        True,
        ("SUM_TYPE_NARROWED #/",),
    ),
    JsonCase("a product is narrowed", {"allOf": [string(), {"enum": ["a"]}]}, {"allOf": [string()]}, True, False),
    JsonCase(
        "a product is extended",
        {"allOf": [string()]},
        {"allOf": [{"enum": ["a"]}, string()]},
        False,
        True,
        ("PRODUCT_TYPE_EXTENDED #/",),
    ),
    JsonCase("members in another order", {"oneOf": [string(), number()]}, {"oneOf": [number(), string()]}, True, True),
    JsonCase("the same member twice", {"anyOf": [string(), string()]}, {"anyOf": [string()]}, True, True),
    JsonCase(
        "a member has no partner",
        {"oneOf": [string()]},
        {"oneOf": [number()]},
        False,
        False,
        ("COMBINED_TYPE_SUBSCHEMAS_CHANGED #/",),
    ),
    JsonCase(
        "partners are found by the largest matching",
        {"oneOf": [string(maxLength=2), string(maxLength=5)]},
        {"oneOf": [string(maxLength=6), string(maxLength=3)]},
        True,
        False,
    ),
    JsonCase("oneOf to anyOf", {"oneOf": [string(), number()]}, {"anyOf": [string(), number()]}, True, False),
    JsonCase("anyOf of one to oneOf", {"anyOf": [string()]}, {"oneOf": [number(), string()]}, True, False),
    JsonCase(
        "anyOf of two to oneOf",
        {"anyOf": [string(), number()]},
        {"oneOf": [string(), number()]},
        False,
        True,
        ("COMBINED_TYPE_CHANGED #/",),
    ),
    JsonCase("allOf to anyOf", {"allOf": [string(), {"maxLength": 1}]}, {"anyOf": [string()]}, True, False),
    JsonCase(
        "conditions are not compared",
        {"if": string(), "then": {"minLength": 1}},
        {"if": string(), "then": {"minLength": 2}},
        True,
        True,
    ),
)

TREE = {"$id": "tree", **obj({"value": number(), "next": {"$ref": "#"}})}
REFERENCES = (
    JsonCase(
        "a definition changes",
        array({"$ref": "#/definitions/d"}, definitions={"d": string()}),
        array({"$ref": "#/definitions/d"}, definitions={"d": number()}),
        False,
        False,
        ("TYPE_CHANGED #/items",),
    ),
    JsonCase(
        "a type moves to a definition",
        array(string()),
        array({"$ref": "#/definitions/d"}, definitions={"d": string()}),
        True,
        True,
    ),
    JsonCase("a recursive schema", TREE, TREE, True, True),
    JsonCase(
        "a recursive schema is narrowed",
        TREE,
        {**TREE, "properties": {"value": integer(), "next": {"$ref": "#"}}},
        False,
        True,
        ("TYPE_NARROWED #/properties/value",),
    ),
    JsonCase(
        "draft 7: nothing counts beside $ref",
        obj({"a": {"$ref": "#/definitions/d"}}, definitions={"d": string()}),
        obj({"a": {"$ref": "#/definitions/d", "maxLength": 1}}, definitions={"d": string()}),
        True,
        True,
    ),
    JsonCase(
        "2020-12: a keyword beside $ref",
        newest(obj({"a": {"$ref": "#/$defs/d"}}, **{"$defs": {"d": string()}})),
        newest(obj({"a": {"$ref": "#/$defs/d", "maxLength": 1}}, **{"$defs": {"d": string()}})),
        False,
        True,
        ("TYPE_CHANGED #/properties/a",),
    ),
    JsonCase(
        "2020-12: an anchor",
        newest(obj({"a": {"$ref": "#d"}}, **{"$defs": {"d": string(**{"$anchor": "d"})}})),
        newest(obj({"a": string(maxLength=1)})),
        False,
        True,
        ("MAX_LENGTH_ADDED #/properties/a/maxLength",),
    ),
    JsonCase(
        "the meta-schema itself",
        obj({"a": {"$ref": "http://json-schema.org/draft-07/schema#"}}),
        obj({"a": {"$ref": "http://json-schema.org/draft-07/schema#"}}),
        True,
        True,
    ),
)
CASES = (*SIMPLE, *OBJECTS, *ARRAYS, *COMBINED, *REFERENCES)
