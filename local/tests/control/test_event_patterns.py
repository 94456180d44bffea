"""Event patterns: what EventBridge refuses, in the words that were recorded, and arrays."""

from __future__ import annotations

import json
from typing import Any

import pytest
from moto.events.models import EventPattern

from shoal_local.control.event_patterns import check, matches
from shoal_local.control.events import size_bytes
from shoal_local.errors import AwsError

MISTAKES = {
    '["a"]': "Filter is not an object",
    '{"source": "a"}': '"source" must be an object or an array',
    '{"detail": {"n": 3}}': '"n" must be an object or an array',
    '{"detail": {"a": []}}': "Empty arrays are not allowed",
    '{"detail": {}}': "Empty objects are not allowed",
    '{"source": [["a"]]}': "Match value must be String, number, true, false, or null",
    '{"source": [{"nonsense": "x"}]}': "Unrecognized match type nonsense",
    '{"source": [{"PREFIX": "x"}]}': "Unrecognized match type PREFIX",
    '{"source": [{"prefix": "x", "suffix": "y"}]}': "Only one key allowed in match expression",
    '{"source": [{"exists": "yes"}]}': "exists match pattern must be either true or false.",
    '{"source": [{"prefix": 1}]}': "prefix match pattern must be a string",
    '{"source": [{"suffix": ["x"]}]}': "suffix match pattern must be a string",
    '{"source": [{"equals-ignore-case": ["x"]}]}': "equals-ignore-case match pattern must be a",
    '{"source": [{"wildcard": 1}]}': "wildcard match pattern must be a string",
    '{"source": [{"wildcard": "a**b"}]}': "Consecutive wildcard characters at pos 1",
    '{"source": [{"cidr": "10.0.0.0"}]}': "Malformed CIDR, one '/' required",
    '{"source": [{"cidr": "10.0.0.0/x"}]}': "Malformed CIDR, mask bits must be an integer",
    '{"source": [{"cidr": "10.x/8"}]}': "Nonstandard IP address: 10.x",
    '{"source": [{"numeric": 5}]}': "Value of numeric must be an array.",
    '{"source": [{"numeric": ["~", 5]}]}': "Unrecognized numeric range operator: ~",
    '{"source": [{"numeric": ["<", "5"]}]}': "Value of < must be numeric",
    '{"source": [{"numeric": [">", 5, "<"]}]}': "Value of < must be numeric",
    '{"source": [{"numeric": [">", 0, ">", 5]}]}': "Bad numeric range operator: >",
    '{"source": [{"numeric": [">", 5, "<", 1]}]}': "Bottom must be less than top",
    '{"source": [{"anything-but": null}]}': "Value of anything-but must be an array or single",
    '{"source": [{"anything-but": ["a", null]}]}': "Inside anything but list, start|null|boolean",
    '{"source": [{"anything-but": {"prefix": 1}}]}': "prefix/suffix match pattern must be a string",
    '{"source": [{"anything-but": {"suffix": ""}}]}': "Null prefix/suffix not allowed",
    '{"source": [{"anything-but": {"exists": true}}]}': "Unsupported anything-but pattern: exists",
    "source": "the pattern is not JSON",
}


@pytest.mark.parametrize(("pattern", "reason"), MISTAKES.items())
def test_a_pattern_that_is_none_is_refused_with_the_reason(pattern: str, reason: str) -> None:
    with pytest.raises(AwsError) as refusal:
        check(pattern)
    assert refusal.value.code == "InvalidEventPatternException"
    assert reason in refusal.value.message


@pytest.mark.parametrize(
    "pattern",
    [
        {"source": ["a", 1, None, True], "detail": {"b": {"c": [{"exists": False}]}}},
        {"source": [{"prefix": "a"}, {"suffix": {"equals-ignore-case": "B"}}]},
        {"detail": {"$or": [{"a": [1]}, {"b": [{"numeric": [">", 0, "<=", 5]}]}]}},
        {"detail": {"a": [{"numeric": ["=", 3.5]}, {"cidr": "10.0.0.0/8"}, {"wildcard": "a*b*"}]}},
        {"detail": {"a": [{"anything-but": ["x", 1]}, {"anything-but": {"wildcard": ["*.tmp"]}}]}},
        {"detail": {"a": [{"anything-but": {"prefix": ["x", "y"]}}, {"cidr": "2001:db8::/32"}]}},
    ],
)
def test_a_pattern_of_every_operator_is_taken(pattern: dict[str, Any]) -> None:
    check(json.dumps(pattern))


def test_an_entry_has_the_size_that_eventbridge_counts_also_with_half_a_character() -> None:
    entry = {"Source": "ä", "DetailType": "\ud800", "Detail": "{}", "Resources": ["ab"], "Time": 1}
    assert size_bytes(entry) == 2 + 3 + 2 + 2 + 14


@pytest.mark.parametrize(
    ("fields", "matched"),
    [
        ({"name": ["train"]}, True),
        ({"name": ["train"], "size": [{"numeric": [">", 5]}]}, False),
        ({"name": ["test"], "size": [{"numeric": [">", 5]}]}, True),
        ({"name": ["none"]}, False),
        ({"name": [{"exists": True}]}, True),
    ],
)
def test_one_object_of_an_array_must_have_every_field(
    fields: dict[str, Any], matched: bool
) -> None:
    """Recorded for one field (`list_within_dict`); several are event-ruler's array consistency."""
    pattern = EventPattern.load(json.dumps({"detail": {"channels": fields}}))
    channels = [{"name": "train", "size": 1}, {"name": "test", "size": 9}, {"other": 1}]
    assert matches(pattern, {"detail": {"channels": channels}}) is matched
