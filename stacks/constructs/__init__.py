"""One file per capability: typed settings and CDK objects in, CDK objects with least-privilege
policies out.
"""
