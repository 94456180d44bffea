"""The grammar of event patterns.

moto takes any pattern below the first level, and a rule with a misspelt operator never fires.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

from shoal_local.errors import AwsError
from shoal_local.tables import read_table


def check(text: str) -> None:
    """Raise AwsError InvalidEventPatternException for what is no pattern."""
    try:
        mistake = best_match(_grammar().iter_errors(json.loads(text)))
        reason = f"{mistake.json_path}: {mistake.message}" if mistake else ""
    except (ValueError, RecursionError) as error:
        reason = f"the pattern is not JSON: {error}"
    if reason:
        raise AwsError(
            "InvalidEventPatternException", f"Event pattern is not valid. Reason: {reason}"
        )


@cache
def _grammar() -> Draft202012Validator:
    return Draft202012Validator(read_table(Path(__file__).with_name("event_patterns.yaml")))
