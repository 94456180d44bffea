"""Our own rules on templates, for mistakes that CloudFormation's schema, cfn-lint and cdk-nag
accept.
"""
