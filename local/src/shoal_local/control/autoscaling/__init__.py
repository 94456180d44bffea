"""Application Auto Scaling for the variants of endpoints: targets and policies in; other instance
counts, for what was measured, out.
"""
