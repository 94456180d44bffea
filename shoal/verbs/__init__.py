"""The verbs of Shoal: deploy, upload, run, watch, invoke, tear down.

The same code for AWS and for loopback; see `shoal.verbs.target`.
"""
