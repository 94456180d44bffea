"""A small training script for the emulator's tests: what it does is chosen by hyperparameters; runs
plain, under mpirun or torchrun.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from pathlib import Path


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--do", default="succeed")
    parser.add_argument("--value", type=int, default=1)
    options, _ = parser.parse_known_args()
    model = Path(os.environ["SM_MODEL_DIR"])
    if options.do == "empty":
        return
    if options.do == "fail":
        raise ValueError("this script fails on purpose")
    if options.do == "hang":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        print("hanging", flush=True)
        time.sleep(600)
    if options.do == "wait":
        (model / "before.txt").write_text("written before the stop")
        print("waiting", flush=True)
        time.sleep(600)
    if options.do == "checkpoint":
        checkpoint = Path("/opt/ml/checkpoints/step.txt")
        count = int(checkpoint.read_text()) if checkpoint.exists() else 0
        checkpoint.write_text(str(count + 1))
        print(f"checkpoint={count + 1}")
    print(f"epoch=1 loss={1 / options.value:.3f}")
    print("epoch=2 loss=0.125")
    data = os.environ.get("SM_CHANNEL_TRAIN")
    (model / "model.txt").write_text(
        " ".join(sorted(path.name for path in Path(data).rglob("*"))) if data else "no data"
    )
    (Path(os.environ["SM_OUTPUT_DATA_DIR"]) / "notes.txt").write_text(
        f"{os.uname().nodename} {sys.argv[1:]}"
    )


if __name__ == "__main__":
    main()
