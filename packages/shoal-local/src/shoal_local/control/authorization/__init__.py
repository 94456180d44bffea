"""IAM as AWS applies it: the questions that a request raises, the answer of the policies, and the
words of a refusal.
"""
