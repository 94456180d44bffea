"""Amazon SageMaker on loopback: API requests run real processes, with artifacts in S3, logs and
events.
"""
