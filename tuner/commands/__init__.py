"""The commands of the command line, those of one purpose in a module; `options` is what they share.

Everything heavy is imported by the command that needs it, so that `--help` is instant.
"""
