"""CloudWatch's SEARCH as far as our dashboards use it: an expression goes in, what it asks and
which values it matches come out.

`SEARCH('{"Namespace",Dimension,...} MetricName="exact" Dimension=term', 'Statistic', period)`:
metrics with exactly these dimensions and this name whose value of one dimension contains the term's
tokens one after the other. In double quotes a term would have to be the whole value. Source:
CloudWatch user guide, "Search expression syntax".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_EXPRESSION = re.compile(
    r"^SEARCH\('\{\"(?P<namespace>[^\"]+)\",(?P<keys>[\w,]+)\} MetricName=\"(?P<name>[^\"]+)\""
    r" (?P<key>\w+)=(?P<term>[^\s\"']+)',"
    r" '(?P<stat>\w+)', (?P<period>\d+)\)$"
)
_TOKEN = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")


@dataclass(frozen=True)
class Search:
    """One expression, read."""

    namespace: str
    keys: tuple[str, ...]
    """The dimensions that a metric must have, and no other."""
    name: str
    key: str
    """The dimension in whose value the term must be."""
    term: str
    stat: str
    period_s: int

    def finds(self, dimensions: Mapping[str, str]) -> bool:
        """Whether a metric of this name with these dimensions is found."""
        return set(dimensions) == set(self.keys) and _contains(
            _tokens(dimensions[self.key]), _tokens(self.term)
        )


def parse(expression: str) -> Search:
    """Raises ValueError for an expression of another form."""
    match = _EXPRESSION.match(expression)
    if match is None:
        raise ValueError(f"not an expression of our dashboards: {expression}")
    keys = tuple(match["keys"].split(","))
    return Search(
        match["namespace"],
        keys,
        match["name"],
        match["key"],
        match["term"],
        match["stat"],
        int(match["period"]),
    )


def _tokens(text: str) -> list[str]:
    """Words as camel case, digits and other characters separate them.

    A term of one token is found in any case, several as written.
    """
    found = _TOKEN.findall(text)
    return [found[0].lower()] if len(found) == 1 else found


def _contains(value: list[str], term: list[str]) -> bool:
    if len(term) == 1:
        return term[0] in [token.lower() for token in value]
    return any(
        value[start : start + len(term)] == term for start in range(len(value) - len(term) + 1)
    )
