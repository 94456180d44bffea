"""What each role may do, compared with AWS's documentation and with what an end-to-end run really
asked for.
"""
