"""Files that schemas may import without a reference, besides `google/protobuf`: Google's common
types and Confluent's, as every registry has them.

Source: googleapis, `google/type`; Confluent's Schema Registry.
"""

from __future__ import annotations

from collections.abc import Mapping

_DAYS = "MONDAY TUESDAY WEDNESDAY THURSDAY FRIDAY SATURDAY SUNDAY"
_MONTHS = "JANUARY FEBRUARY MARCH APRIL MAY JUNE JULY AUGUST SEPTEMBER OCTOBER NOVEMBER DECEMBER"
_PERIODS = "DAY WEEK FORTNIGHT MONTH QUARTER HALF YEAR"


def _enum(name: str, zero: str, values: str) -> str:
    numbered = "".join(f" {value} = {number};" for number, value in enumerate(values.split(), 1))
    return f"enum {name} {{ {zero} = 0;{numbered} }}"


_GOOGLE_TYPES: Mapping[str, str] = {
    "calendar_period": _enum("CalendarPeriod", "CALENDAR_PERIOD_UNSPECIFIED", _PERIODS),
    "color": """
        import "google/protobuf/wrappers.proto";
        message Color { float red = 1; float green = 2; float blue = 3; google.protobuf.FloatValue alpha = 4; }
    """,
    "date": "message Date { int32 year = 1; int32 month = 2; int32 day = 3; }",
    "datetime": """
        import "google/protobuf/duration.proto";
        message DateTime {
          int32 year = 1; int32 month = 2; int32 day = 3; int32 hours = 4; int32 minutes = 5; int32 seconds = 6;
          int32 nanos = 7; oneof time_offset { google.protobuf.Duration utc_offset = 8; TimeZone time_zone = 9; }
        }
        message TimeZone { string id = 1; string version = 2; }
    """,
    "dayofweek": _enum("DayOfWeek", "DAY_OF_WEEK_UNSPECIFIED", _DAYS),
    "decimal": "message Decimal { string value = 1; }",
    "expr": "message Expr { string expression = 1; string title = 2; string description = 3; string location = 4; }",
    "fraction": "message Fraction { int64 numerator = 1; int64 denominator = 2; }",
    "interval": """
        import "google/protobuf/timestamp.proto";
        message Interval { google.protobuf.Timestamp start_time = 1; google.protobuf.Timestamp end_time = 2; }
    """,
    "latlng": "message LatLng { double latitude = 1; double longitude = 2; }",
    "localized_text": "message LocalizedText { string text = 1; string language_code = 2; }",
    "money": "message Money { string currency_code = 1; int64 units = 2; int32 nanos = 3; }",
    "month": _enum("Month", "MONTH_UNSPECIFIED", _MONTHS),
    "phone_number": """
        message PhoneNumber {
          oneof kind { string e164_number = 1; ShortCode short_code = 2; }
          string extension = 3;
          message ShortCode { string region_code = 1; string number = 2; }
        }
    """,
    "postal_address": """
        message PostalAddress {
          int32 revision = 1; string region_code = 2; string language_code = 3; string postal_code = 4;
          string sorting_code = 5; string administrative_area = 6; string locality = 7; string sublocality = 8;
          repeated string address_lines = 9; repeated string recipients = 10; string organization = 11;
        }
    """,
    "quaternion": "message Quaternion { double x = 1; double y = 2; double z = 3; double w = 4; }",
    "timeofday": "message TimeOfDay { int32 hours = 1; int32 minutes = 2; int32 seconds = 3; int32 nanos = 4; }",
}
_META_TARGETS = ("File", "Message", "Field", "Enum", "EnumValue")
_META_NAMES = ("file_meta", "message_meta", "field_meta", "enum_meta", "enum_value_meta")
_EXTENDS = "".join(
    f"extend google.protobuf.{target}Options {{ Meta {name} = 1088; }}"
    for target, name in zip(_META_TARGETS, _META_NAMES, strict=True)
)
TEXTS: Mapping[str, str] = {
    **{
        f"google/type/{stem}.proto": f'syntax = "proto3"; package google.type; {text}'
        for stem, text in _GOOGLE_TYPES.items()
    },
    "confluent/meta.proto": f"""
        syntax = "proto3"; package confluent; import "google/protobuf/descriptor.proto";
        message Meta {{ string doc = 1; map<string, string> params = 2; repeated string tags = 3; }}
        {_EXTENDS}
    """,
    "confluent/type/decimal.proto": """
        syntax = "proto3"; package confluent.type; message Decimal { bytes value = 1; int32 scale = 2; }
    """,
}
"""The texts by path, without comments and options, which change nothing on the wire."""
