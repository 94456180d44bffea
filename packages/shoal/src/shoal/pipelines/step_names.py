"""Names of steps that others than `pipelines/training.py` look for: requests that read a step's
result, pages of runs, the dashboard. Rename a step here, and they all follow.
"""

TRAIN = "Train"
EVALUATE = "Evaluate"
COMPARE = "Compare"
"""Compares with the newest approved version."""
GATE = "Gate"
SEAL = "Seal"
CREATE_MODEL = "CreateModel"
CREATE_ENDPOINT_CONFIG = "CreateEndpointConfig"
SMOKE_TEST = "SmokeTest"
TEARDOWN = "Teardown"
