"""Amazon FSx for Lustre: file systems and data repository associations in, folders with the data
repository's files out.
"""
