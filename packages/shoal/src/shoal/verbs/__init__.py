"""The verbs of Shoal: deploy, upload, run, watch, invoke, tear down.

They are the same code for AWS and for shoal-local; see `shoal.aws.target`.
"""
