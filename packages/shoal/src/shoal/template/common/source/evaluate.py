"""Measures a trained model, for evaluation.json, whose numbers the gates of workload.yaml judge."""

import sys

from evaluation import evaluate
from saved_model import measured

if __name__ == "__main__":
    evaluate(sys.argv[1:], measured)
