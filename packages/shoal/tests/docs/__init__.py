"""Tests of the pages: the commands and links in them work."""
