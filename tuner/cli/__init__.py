"""The command line: one module a command, named after it, that parses, calls and prints.

Commands import what is heavy when they run, so that --help is fast.
"""
