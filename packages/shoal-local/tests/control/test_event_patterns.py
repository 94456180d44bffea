"""Event patterns: what EventBridge refuses, with the place of the mistake."""

from __future__ import annotations

import json
from typing import Any

import pytest

from shoal_local.control.events.event_patterns import check
from shoal_local.errors import AwsError

MISTAKES = {
    '["a"]': "is not of type 'object'",
    '{"source": "a"}': "$.source: 'a' is not of type",
    '{"detail": {"n": 3}}': "$.detail.n: 3 is not of type",
    '{"detail": {"a": []}}': "$.detail.a: [] should be non-empty",
    '{"detail": {}}': "$.detail: {} should be non-empty",
    '{"source": [["a"]]}': "$.source[0]: ['a'] is not of type",
    '{"source": [{"nonsense": "x"}]}': "'nonsense' was unexpected",
    '{"source": [{"PREFIX": "x"}]}': "'PREFIX' was unexpected",
    '{"source": [{"prefix": "x", "suffix": "y"}]}': "has too many properties",
    '{"source": [{"exists": "yes"}]}': "'yes' is not of type 'boolean'",
    '{"source": [{"prefix": 1}]}': "prefix: 1 is not of type",
    '{"source": [{"suffix": ["x"]}]}': "suffix: ['x'] is not of type",
    '{"source": [{"equals-ignore-case": ["x"]}]}': "['x'] is not of type 'string'",
    '{"source": [{"wildcard": 1}]}': "wildcard: 1 is not of type 'string'",
    '{"source": [{"wildcard": "a**b"}]}': "wildcard: 'a**b' should not be valid",
    '{"source": [{"cidr": "10.0.0.0"}]}': "cidr: '10.0.0.0' does not match",
    '{"source": [{"cidr": "10.0.0.0/x"}]}': "cidr: '10.0.0.0/x' does not match",
    '{"source": [{"cidr": "10.x/8"}]}': "cidr: '10.x/8' does not match",
    '{"source": [{"numeric": 5}]}': "numeric: 5 is not of type 'array'",
    '{"source": [{"numeric": ["~", 5]}]}': "numeric: ['~', 5] is not valid",
    '{"source": [{"numeric": ["<", "5"]}]}': "numeric",
    '{"source": [{"numeric": [">", 5, "<"]}]}': "numeric: ['>', 5, '<']",
    '{"source": [{"numeric": [">", 0, ">", 5]}]}': "'>' is not one of ['<', '<=']",
    '{"source": [{"anything-but": null}]}': "None is not of type",
    '{"source": [{"anything-but": ["a", null]}]}': "[1]: None is not of type",
    '{"source": [{"anything-but": {"prefix": 1}}]}': "prefix: 1 is not of type",
    '{"source": [{"anything-but": {"suffix": ""}}]}': "suffix: '' should be non-empty",
    '{"source": [{"anything-but": {"exists": true}}]}': "'exists' was unexpected",
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
