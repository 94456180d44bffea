"""Trains a model with XGBoost, as a script in AWS's image does."""

import os
from pathlib import Path

import numpy as np
import xgboost

if __name__ == "__main__":
    x = np.linspace(0, 1, 64).reshape(-1, 1)
    data = xgboost.DMatrix(x, label=x[:, 0] > 0.5)
    model = xgboost.train({"objective": "binary:logistic"}, data, num_boost_round=4)
    model.save_model(Path(os.environ["SM_MODEL_DIR"]) / "model.json")
