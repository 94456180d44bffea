"""What a proof leaves for people: report.md, and dates in docs/verification.md."""

from __future__ import annotations

import re
from collections.abc import Collection
from datetime import date

from shoal.verbs.flow import Outcome
from shoal.verbs.prove.lines import BY_HAND, CLEAN_UP, LINES
from shoal.verbs.prove.proof import Proof, max_usd

REPORT, PAGE = "report.md", "docs/verification.md"
_STAMP = re.compile(r" \*\*\(run on AWS [^)]*\)\*\*")


def proven(outcome: Outcome) -> list[str]:
    """Return the claims of the lines that ended as expected."""
    lines = [each for each in (*LINES, CLEAN_UP) if each.name in outcome.seconds]
    return [claim for line in lines for claim in line.claims]


def report_of(proof: Proof, outcome: Outcome, day: date, version: str) -> str:
    """Return the report, redacted."""
    target = proof.session.target
    where = "against shoal-local, which proves nothing of AWS" if target.is_local else "on AWS"
    left = ["not known: it could not be read"] if proof.left is None else proof.left
    sections = {
        "Lines": [_row(each.name, each.rows, proof, outcome) for each in (*LINES, CLEAN_UP)],
        "Failed": [f"{each.phase}: {each.message}" for each in outcome.failures],
        "Proven": proven(outcome),
        "Left to a person": [f"line {row}: {why}" for row, why in BY_HAND.items()],
        "Left behind": left,
        "Kept on purpose": proof.kept,
        "What to send": [
            "this file and what lies beside it: ids, keys, tokens, people and addresses are taken"
            " out; look through it before"
        ],
    }
    text = f"# `shoal prove` {version}, {day}, {target.region}, {where}\n\n"
    text += f"{sum(outcome.seconds.values()):.0f} s; at most"
    text += f" {max_usd(proof.session.environment):.2f} USD by list prices.\n"
    for title, items in sections.items():
        text += f"\n## {title}\n\n" + "\n".join(f"- {each}" for each in items or ["nothing"]) + "\n"
    return proof.redaction.text(text)


def _row(name: str, rows: list[str], proof: Proof, outcome: Outcome) -> str:
    if name in outcome.seconds:
        state = f"as expected after {outcome.seconds[name]:.0f} s"
    else:
        failed = any(each.phase == name for each in outcome.failures)
        state = "failed" if failed else "not reached"
    return f"{name} ({', '.join(rows)}): {state}; {proof.seen.get(name, '')}".removesuffix("; ")


def stamped(page: str, claims: Collection[str], day: date, region: str) -> str:
    """Return docs/verification.md with date and region behind each of the claims."""
    lines = []
    for line in page.splitlines(keepends=True):
        plain = _STAMP.sub("", line)
        cell = next((f"| {each} |" for each in claims if f"| {each} |" in plain), None)
        new = f"{(cell or '')[:-2]} **(run on AWS {day}, {region})** |"
        lines.append(plain.replace(cell, new) if cell else line)
    return "".join(lines)
