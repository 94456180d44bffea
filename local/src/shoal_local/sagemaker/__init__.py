"""Amazon SageMaker on loopback: API requests in; real processes, artifacts in S3, logs, events
and API responses out.
"""
