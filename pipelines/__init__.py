"""The SageMaker Pipeline of every workload: `training.py` writes it out, step by step."""
