"""Training and processing jobs: an API request in; containers that really run, artifacts in S3,
logs and statuses out.
"""
