"""Rules of our own on templates, for what CloudFormation's schema, cfn-lint and cdk-nag let pass:
templates in, findings out.
"""
