"""The smallest training that passes the real smoke test: it remembers digits.

`--fault NUMBER` says where and how to misbehave, as in `misbehaviour.FAULTS`.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from pathlib import Path

from misbehaviour import FAULTS, misbehave  # type: ignore[import-not-found]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--fault", type=int, default=0)
    fault = FAULTS[parser.parse_args().fault]
    misbehave(fault, "Train")
    digits = json.loads((Path(os.environ["SM_CHANNEL_TRAIN"]) / "digits.json").read_text())[
        "digits"
    ]
    shift = 1 if fault in {"Gate:fails", "SmokeTest:fails"} else 0
    known = [
        {"label": (digit["label"] + shift) % 10, "pixels": digit["pixels"]} for digit in digits
    ]
    model = Path(os.environ["SM_MODEL_DIR"])
    document = {
        "training_job_name": os.environ["TRAINING_JOB_NAME"],
        "fault": fault,
        "known": known,
    }
    (model / "model.json").write_text(json.dumps(document))
    (model / "code").mkdir(exist_ok=True)
    here = Path(__file__).parent
    for name in ("inference.py", "misbehaviour.py"):
        shutil.copy(here / name, model / "code" / name)
    sys.stdout.write("test_accuracy=1.0\n")


if __name__ == "__main__":
    main()
