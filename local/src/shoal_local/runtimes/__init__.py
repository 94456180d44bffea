"""Local runtimes: a lock file and local packages in; a virtual environment that stands in for a
container image out.
"""
