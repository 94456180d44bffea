"""Every finding of cdk-nag's packs is acknowledged or answered.

Acknowledgements of AwsSolutions stand in the code, next to what they are about. The two packs that
are only reported (NIST 800-53 R5 and Serverless) are answered in docs/security-answers.yaml.
`python -m tests.stacks.test_findings` prints all of them, for a review.
"""

import json
import re
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
import yaml

from shoal.constructs import use_installed_node
from tests.repository import ROOT
from tests.stacks.reading import violations
from tests.stacks.test_combinations import environment

ANSWERS = ROOT / "docs" / "security-answers.yaml"
REVIEWED = ("all", "all-kept", "vpc-fsx", "plain")
"""Cases of `combinations` in cases.yaml that have between them every resource that any has."""
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
    """What a synth of all reviewed environments says."""

    findings: frozenset[Finding]
    acknowledgements: frozenset[Acknowledgement]


def answers() -> list[Answer]:
    rows: list[dict[str, str]] = yaml.safe_load(ANSWERS.read_text(encoding="utf-8"))
    return [Answer(row["rule"], row.get("at", ".*"), row["verdict"], row["answer"]) for row in rows]


@cache
def review() -> Review:
    """Synthesise with no acknowledgement applied; takes about ten seconds."""
    use_installed_node()
    from shoal.constructs.app import feature_flags
    from shoal.constructs.roles.actor_role import RAW_FINDINGS
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
        return Review(frozenset(_findings(outdir)), frozenset(_acknowledgements(outdir)))


def _findings(outdir: Path) -> Iterator[Finding]:
    for pack, violation in violations(outdir):
        rule, text = _general(violation["ruleName"]), violation["description"]
        for construct in violation["violatingConstructs"]:
            path = _inside(construct["constructPath"])
            yield Finding(pack, rule, path, text.partition(" - (Control IDs")[0])


def _acknowledgements(outdir: Path) -> Iterator[Acknowledgement]:
    from shoal.constructs.roles.actor_role import NOT_APPLIED

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


@pytest.fixture(scope="module")
def result() -> Review:
    return review()


def _covering(each: Finding, reasons: Iterable[Acknowledgement | Answer]) -> int:
    return sum(reason.covers(each) for reason in reasons)


def test_every_finding_of_the_gate_is_acknowledged(result: Review) -> None:
    gate = [each for each in result.findings if each.pack == GATE]
    assert [each for each in gate if not _covering(each, result.acknowledgements)] == []


def test_every_finding_of_the_reported_packs_has_exactly_one_answer(result: Review) -> None:
    reported = [each for each in sorted(result.findings) if each.pack != GATE]
    assert {each.pack for each in reported} == {"NIST.800.53.R5", "Serverless"}
    assert [each for each in reported if _covering(each, answers()) != 1] == []


def test_no_acknowledgement_and_no_answer_is_stale(result: Review) -> None:
    every: list[Acknowledgement | Answer] = [*sorted(result.acknowledgements), *answers()]
    assert [reason for reason in every if not any(map(reason.covers, result.findings))] == []


if __name__ == "__main__":
    print("\n".join(listed(review())))
