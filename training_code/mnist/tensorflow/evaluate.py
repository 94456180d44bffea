"""Measures a trained model on the test digits, for evaluation.json."""

import sys
from pathlib import Path

import numpy as np
import tensorflow as tf
from common.archive import METADATA_FILE
from common.evaluation import evaluate
from model import VERSION, read


def measure(folder: Path, test_dir: Path) -> dict[str, float]:
    """Return accuracy (0 to 1) and mean cross-entropy of the folder's model. Raise ValueError."""
    for name in (f"{VERSION}/saved_model.pb", METADATA_FILE):
        if not (folder / name).is_file():
            raise ValueError(f"{folder} holds no model: {name} is missing")
    versions = sorted(each.name for each in folder.iterdir() if each.name.isdigit())
    if len(versions) > 1:
        raise ValueError(f"{folder} holds versions {', '.join(versions)}: which one serves?")
    try:
        serve = tf.saved_model.load(str(folder / VERSION)).signatures["serving_default"]
    except (tf.errors.OpError, OSError, ValueError, KeyError) as error:
        raise ValueError(f"{folder} holds a damaged model: {error}") from error
    images, labels = read(test_dir, "t10k")
    parts = np.split(images, range(1000, len(labels), 1000))
    rows = np.concatenate([serve(images=tf.constant(each))["probabilities"] for each in parts])
    loss = -np.log(rows[np.arange(len(labels)), labels].clip(1e-12)).mean()
    right = int((rows.argmax(1) == labels).sum())
    return {"accuracy": right / len(labels), "loss": float(loss), "images": len(labels)}


if __name__ == "__main__":
    evaluate(sys.argv[1:], measure)
