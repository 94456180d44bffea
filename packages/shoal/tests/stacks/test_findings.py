"""Every finding of cdk-nag's packs is acknowledged or answered, and policies are within quotas.

Acknowledgements of AwsSolutions stand in the code, next to what they are about. The two packs that
are only reported (NIST 800-53 R5 and Serverless) are answered in docs/security-answers.yaml.
`python -m tests.stacks.test_findings` prints all of them, for a review.

Policies are counted as IAM counts them. A token that only the deployment resolves counts as
`TOKEN_CHARACTERS`, about as many as the ARNs of an environment have. Source of the quotas: IAM user
guide, "IAM and AWS STS quotas".
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from shoal.constructs import use_installed_node
from tests.matrix.valid import environment
from tests.repository import ROOT

ANSWERS = ROOT / "docs" / "security-answers.yaml"
REVIEWED = ("all", "all-kept", "vpc-fsx", "plain")
"""Combinations of the matrix that have between them every resource that any has."""
GATE = "AwsSolutions"


@dataclass(frozen=True, order=True)
class Finding:
    """A rule that one construct breaks."""

    pack: str
    rule: str
    path: str
    """Of the construct, without the environment's name."""
    text: str


@dataclass(frozen=True, order=True)
class Acknowledgement:
    """A reason, and the construct below which it counts."""

    rule: str
    path: str
    reason: str

    def covers(self, finding: Finding) -> bool:
        return finding.rule == self.rule and f"{finding.path}/".startswith(f"{self.path}/")


@dataclass(frozen=True)
class Answer:
    """An entry for a rule in the file of answers."""

    rule: str
    at: str
    """A regular expression of construct paths, of all of it."""
    verdict: str
    text: str

    def covers(self, finding: Finding) -> bool:
        return finding.rule == self.rule and re.fullmatch(self.at, finding.path) is not None


@dataclass(frozen=True)
class Review:
    """The findings and the templates of a synth of all reviewed environments."""

    findings: frozenset[Finding]
    acknowledgements: frozenset[Acknowledgement]
    templates: tuple[Mapping[str, Any], ...]


def answers() -> list[Answer]:
    rows: list[dict[str, str]] = yaml.safe_load(ANSWERS.read_text(encoding="utf-8"))
    return [Answer(row["rule"], row.get("at", ".*"), row["verdict"], row["answer"]) for row in rows]


@cache
def review() -> Review:
    """Synthesise with no acknowledgement applied; takes about ten seconds."""
    use_installed_node()
    from shoal.constructs.app import feature_flags
    from shoal.constructs.roles.acknowledge import RAW_FINDINGS
    from tests.app import ShoalApp  # starts Node.js

    # The report is all that counts: the CDK neither prints it nor fails.
    flags = {RAW_FINDINGS: True, "@aws-cdk/core:failSynthOnValidationErrors": False}
    context = feature_flags(ROOT) | flags
    with tempfile.TemporaryDirectory() as folder:
        outdir = Path(folder, "cdk.out")
        app = ShoalApp(outdir=str(outdir), context=context)
        for name in REVIEWED:
            app.add_environment([environment(name, Path(folder))], root=ROOT)
        app.synth()
        report = json.loads((outdir / "validation-report.json").read_text())
        templates = tuple(
            json.loads(file.read_text()) for file in sorted(outdir.rglob("*.template.json"))
        )
        return Review(frozenset(_findings(report)), frozenset(_acknowledgements(outdir)), templates)


def _findings(report: Mapping[str, Any]) -> Iterator[Finding]:
    for plugin in report["pluginReports"]:
        for violation in plugin["violations"]:
            for construct in violation["violatingConstructs"]:
                text = violation["description"].partition(" - (Control IDs")[0]
                yield Finding(
                    plugin["pluginName"],
                    _general(violation["ruleName"]),
                    _inside(construct["constructPath"]),
                    text,
                )


def _acknowledgements(outdir: Path) -> Iterator[Acknowledgement]:
    from shoal.constructs.roles.acknowledge import NOT_APPLIED

    for file in outdir.glob("assembly-*/*.metadata.json"):
        for path, entries in json.loads(file.read_text()).items():
            for entry in entries:
                if entry["type"] == NOT_APPLIED:
                    for rule, reason in entry["data"].items():
                        yield Acknowledgement(_general(rule), _inside(path), reason)


def _inside(path: str) -> str:
    """Return the construct's path in its environment, without the parts of ids that come from the
    environment's name.
    """
    name, _, inside = path.strip("/").partition("/")
    return re.sub(
        rf"\b{name.replace('-', '')}(network|data|pipeline)(\w+?)[0-9A-F]{{8}}(?=[:/]|$)",
        r"\1\2",
        inside,
    )


def _general(rule: str) -> str:
    """Return the rule without what differs between environments: names and regions in the ARNs of
    findings on policies.
    """
    for name in sorted(REVIEWED, key=len, reverse=True):
        rule = re.sub(rf"shoal-mnist-{name}(?=[-/:])", "shoal-mnist-ENV", rule)
    return re.sub(r"(?<=[:-])(us|eu|ap|ca|sa)-[a-z]+-\d(?=[:/*-]|$)", "REGION", rule)


def listed(review_result: Review) -> Iterator[str]:
    """Yield the findings with their reasons and answers, a line each."""
    for ack in sorted(review_result.acknowledgements):
        yield f"{ack.rule} at {ack.path}: {ack.reason}"
    for answer in answers():
        covered = sorted(each for each in review_result.findings if answer.covers(each))
        where = ", ".join(dict.fromkeys(each.path.removesuffix("/Resource") for each in covered))
        yield f"{answer.rule} at {where}: {answer.verdict}. {answer.text}"


TOKEN_CHARACTERS = 80
PSEUDO = {"AWS::Partition": 3, "AWS::AccountId": 12, "AWS::Region": 14, "AWS::URLSuffix": 13}
MAX_INLINE, MAX_TRUST, MAX_MANAGED, MAX_ATTACHED = 10_240, 2_048, 6_144, 10


@dataclass(frozen=True, order=True)
class Use:
    """How much of a quota a role or policy uses; ordered by the share."""

    share: float = field(init=False)
    of: str
    quota: str
    used: int
    limit: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "share", self.used / self.limit)

    def __str__(self) -> str:
        return f"{self.of}: {self.quota}, {self.used} of {self.limit} ({self.share:.0%})"


def uses(template: Mapping[str, Any]) -> Iterator[Use]:
    """Yield what a template's roles and managed policies use of IAM's quotas."""
    resources: Mapping[str, Any] = template["Resources"]
    of_type: dict[str, dict[str, Any]] = {}
    for key, resource in resources.items():
        of_type.setdefault(resource["Type"], {})[key] = resource.get("Properties", {})
    policies = of_type.get("AWS::IAM::Policy", {}).values()
    for key, role in of_type.get("AWS::IAM::Role", {}).items():
        inline = [*role.get("Policies", [])]
        inline += [each for each in policies if {"Ref": key} in each.get("Roles", [])]
        name = str(role.get("RoleName", key))
        used = sum(characters(each["PolicyDocument"]) for each in inline)
        yield Use(name, "inline policies", used, MAX_INLINE)
        trust = characters(role["AssumeRolePolicyDocument"])
        yield Use(name, "trust policy", trust, MAX_TRUST)
        attached = role.get("ManagedPolicyArns", [])
        yield Use(name, "attached policies", len(attached), MAX_ATTACHED)
    for key, policy in of_type.get("AWS::IAM::ManagedPolicy", {}).items():
        yield Use(key, "managed policy", characters(policy["PolicyDocument"]), MAX_MANAGED)


def characters(document: Any) -> int:
    """Return the size of a policy document once it is deployed, without white space."""
    return len(re.sub(r"\s", "", json.dumps(_deployed(document))))


def _deployed(value: Any) -> Any:
    """Return a document with text as long as its tokens become."""
    if isinstance(value, list):
        return [_deployed(item) for item in value]
    if not isinstance(value, Mapping):
        return value
    if len(value) != 1 or not _is_function(next(iter(value))):
        return {key: _deployed(inner) for key, inner in value.items()}
    ((function, argument),) = value.items()
    if function == "Fn::Join":
        return argument[0].join(str(_deployed(part)) for part in argument[1])
    if function == "Fn::If":
        return max((_deployed(branch) for branch in argument[1:]), key=lambda each: len(str(each)))
    return "x" * PSEUDO.get(str(argument), TOKEN_CHARACTERS)


def _is_function(name: str) -> bool:
    return name == "Ref" or name.startswith("Fn::")


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


def statement(resource: Any) -> dict[str, Any]:
    return {"Statement": [{"Effect": "Allow", "Action": "s3:GetObject", "Resource": resource}]}


def test_white_space_does_not_count_and_tokens_do() -> None:
    plain = characters(statement("arn"))
    assert characters(statement("a r n")) == plain
    assert characters(statement({"Fn::GetAtt": ["Key", "Arn"]})) == plain - 3 + TOKEN_CHARACTERS
    joined = {"Fn::Join": ["", ["arn:", {"Ref": "AWS::AccountId"}]]}
    assert characters(statement(joined)) == plain - 3 + len("arn:111122223333")
    assert characters(statement({"Fn::If": ["C", "arn", "a"]})) == plain


def test_a_roles_own_and_separate_policies_count_together() -> None:
    policy = {"PolicyName": "p", "PolicyDocument": statement("x" * 6000)}
    role = {"RoleName": "big", "AssumeRolePolicyDocument": {}, "Policies": [policy]}
    template = {
        "Resources": {
            "Role": {"Type": "AWS::IAM::Role", "Properties": role},
            "Policy": {
                "Type": "AWS::IAM::Policy",
                "Properties": {**policy, "Roles": [{"Ref": "Role"}]},
            },
        }
    }
    largest = max(uses(template))
    assert str(largest).startswith("big: inline policies, 121")
    assert largest.share > 1


if __name__ == "__main__":
    print("\n".join(listed(review())))
