"""AWS on loopback: one process that serves the AWS HTTP API for Shoal, with real execution behind
SageMaker and Lambda.
"""
