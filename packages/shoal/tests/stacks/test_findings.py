"""Every finding of every pack has an answer that still has a finding, and policies are within IAM's
quotas.
"""

from __future__ import annotations

import pytest

from tests.stacks.findings import GATE, Review, answers, review
from tests.stacks.policy_sizes import uses


@pytest.fixture(scope="module")
def result() -> Review:
    return review()


def test_every_finding_of_the_gate_is_acknowledged(result: Review) -> None:
    open_findings = [
        each
        for each in result.findings
        if each.pack == GATE and not any(ack.covers(each) for ack in result.acknowledgements)
    ]
    assert open_findings == []


def test_no_acknowledgement_is_stale(result: Review) -> None:
    assert [
        ack
        for ack in sorted(result.acknowledgements)
        if not any(ack.covers(each) for each in result.findings)
    ] == []


def test_every_finding_of_the_reported_packs_has_exactly_one_answer(result: Review) -> None:
    reported = [each for each in sorted(result.findings) if each.pack != GATE]
    assert {each.pack for each in reported} == {"NIST.800.53.R5", "Serverless"}
    assert [
        each
        for each in reported
        if len([answer for answer in answers() if answer.covers(each)]) != 1
    ] == []


def test_no_answer_is_stale(result: Review) -> None:
    assert [
        answer for answer in answers() if not any(answer.covers(each) for each in result.findings)
    ] == []


def test_every_role_and_policy_is_within_iams_quotas(result: Review) -> None:
    shares = sorted(use for template in result.templates for use in uses(template))
    assert shares[-1].share <= 1, "\n".join(map(str, reversed(shares[-10:])))
