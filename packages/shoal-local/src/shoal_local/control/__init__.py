"""The control plane: AWS APIs in front of moto, CloudFormation, Lambda execution, event delivery,
identity.
"""
