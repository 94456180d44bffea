"""What an environment costs before it is deployed: an environment in, a plan with prices out; pure,
like the rest of `pipelines`.
"""
