"""SageMaker pipeline definitions (dicts), made from an environment's settings.

Everything here is pure: no network, no clock, no credentials.
"""
