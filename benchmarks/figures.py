"""Command-line options and output that the benchmarks share."""

import argparse
import statistics


def options(doc, *, rounds):
    """--quick and --rounds, of a module with the docstring `doc`."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rounds", type=int, default=rounds)
    return parser.parse_args()


def spread(values):
    """Least, median and largest."""
    return " / ".join(f"{f(values):.3f}" for f in (min, statistics.median, max))
