"""Models, endpoint configurations and endpoints: API requests in; server processes that answer
invocations out.
"""
