"""What each role may do, checked against what AWS documents and against what an end-to-end run
really asked for.
"""
