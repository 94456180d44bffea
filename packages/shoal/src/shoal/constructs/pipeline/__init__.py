"""The SageMaker Pipeline with its roles and functions."""
