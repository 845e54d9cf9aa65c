"""The command line: parse, call, print. Commands import what is heavy, so that --help is fast."""
