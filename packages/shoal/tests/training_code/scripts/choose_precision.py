"""One rank of two that choose a precision, on CPUs that the test makes up.

`torchrun ... choose_precision.py CODE FOLDER` writes FOLDER/RANK.json: case -> choice.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from unittest import mock

sys.path.insert(0, sys.argv[1])

from common import precision
from common.ranks import joined

FASTER = {"both are faster in bf16": (True, True), "the second rank is not": (True, False)}

with joined("gloo", os.environ) as ranks:
    answers = {}
    for case, is_faster in FASTER.items():
        with mock.patch("common.precision.is_faster_in_bf16", return_value=is_faster[ranks.rank]):
            answers[case] = precision.choose("auto", None, ranks)[0]
    Path(sys.argv[2], f"{ranks.rank}.json").write_text(json.dumps(answers))
