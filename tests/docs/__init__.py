"""Tests of the pages: what they name exists, what they show works, what is generated is current."""
