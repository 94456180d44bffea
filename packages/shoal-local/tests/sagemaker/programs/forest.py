"""Trains a classifier with scikit-learn, and serves it with the image's defaults."""

import argparse
import os
from pathlib import Path

import joblib
import pandas as pd
from sklearn.tree import DecisionTreeClassifier


def model_fn(folder: str) -> DecisionTreeClassifier:
    return joblib.load(Path(folder) / "model.joblib")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--max-depth", type=int)
    options = parser.parse_args()
    table = pd.read_csv(Path(os.environ["SM_CHANNEL_TRAIN"]) / "train.csv", header=None)
    model = DecisionTreeClassifier(max_depth=options.max_depth)
    features = table.iloc[:, 1:].to_numpy()
    model.fit(features, table[0])
    print(f"accuracy={model.score(features, table[0])}")
    joblib.dump(model, Path(os.environ["SM_MODEL_DIR"]) / "model.joblib")
