"""Amazon FSx for Lustre: file systems are folders that show the files of their data
repositories.
"""
