"""IAM as AWS applies it: which questions a request raises, what the policies answer, and how a
refusal is worded.
"""
