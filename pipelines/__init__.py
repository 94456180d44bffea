"""An environment's settings in, its SageMaker pipeline definition (a dict) out; pure: no network,
no clock, no credentials.
"""
