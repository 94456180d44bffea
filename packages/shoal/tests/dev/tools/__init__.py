"""Tests of the installer and the gates."""
