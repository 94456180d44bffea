"""The `shoal` command: arguments in, text, exit codes and report files out.

It composes `lifecycle`, `pipelines` and the emulator.
"""
