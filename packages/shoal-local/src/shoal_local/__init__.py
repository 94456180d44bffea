"""AWS on loopback: one process that serves the AWS HTTP API and really runs SageMaker jobs and
Lambda functions.
"""
