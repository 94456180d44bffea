"""Trains a model with XGBoost, as a script in AWS's image does, and serves it."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import xgboost


def model_fn(folder: str) -> xgboost.Booster:
    return xgboost.Booster(model_file=Path(folder) / "model.json")


def input_fn(body: bytes, content_type: str) -> xgboost.DMatrix:
    return xgboost.DMatrix(np.array(body.split(), dtype=float).reshape(-1, 1))


def predict_fn(rows: xgboost.DMatrix, model: xgboost.Booster) -> Any:
    return model.predict(rows)


def output_fn(predicted: Any, accept: str) -> tuple[str, str]:
    return "\n".join(str(round(float(each))) for each in predicted), accept


if __name__ == "__main__":
    x = np.linspace(0, 1, 64).reshape(-1, 1)
    data = xgboost.DMatrix(x, label=x[:, 0] > 0.5)
    model = xgboost.train({"objective": "binary:logistic"}, data, num_boost_round=4)
    model.save_model(Path(os.environ["SM_MODEL_DIR"]) / "model.json")
