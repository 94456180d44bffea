"""What SEARCH finds, by the examples of CloudWatch's user guide and by the names that our jobs and
endpoints have.
"""

from __future__ import annotations

import pytest

from shoal.verbs.metric_search import parse


def search(term: str) -> str:
    return f"SEARCH('{{\"Tests\",Name}} MetricName=\"loss\" Name={term}', 'Average', 60)"


@pytest.mark.parametrize(
    ("term", "value"),
    [
        ("count", "CustomCount1"),
        ("COUNT", "CustomCount1"),
        ("CustomCount", "CustomCount1"),
        ("Count1", "CustomCount1"),
        ("Network_Errors", "Network-Errors-2"),
        ("pipelines", "pipelines-cg5srt4dnq28-Train-U5AZYv2WxN"),
        ("pipelines", "pipelines-cg5srt4dnq28-Train-U5AZYv2WxN/algo-1"),
        ("shoal-mnist-dev", "shoal-mnist-dev-cg5srt4dnq28"),
    ],
)
def test_a_term_without_quotes_matches_tokens_of_a_value(term: str, value: str) -> None:
    assert parse(search(term)).finds({"Name": value})


@pytest.mark.parametrize(
    ("term", "value"),
    [
        ("customcount", "CustomCount1"),
        ("ount", "CustomCount1"),
        ("pipeline", "pipelines-x-Train"),
        ("shoal-mnist-dev", "shoal-mnist-prod-x"),
    ],
)
def test_a_part_of_a_token_or_another_order_does_not_match(term: str, value: str) -> None:
    assert not parse(search(term)).finds({"Name": value})


def test_a_metric_with_another_dimension_is_not_found() -> None:
    assert not parse(search("count")).finds({"Name": "CustomCount1", "Host": "a"})


def test_a_quoted_term_is_not_taken_for_a_part_of_a_value() -> None:
    with pytest.raises(ValueError, match="not an expression of our dashboards"):
        parse(search('"pipelines"'))
