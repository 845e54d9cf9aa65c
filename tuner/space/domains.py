"""Domains: where each hyperparameter may lie, written as Ray Tune's own calls.

A domain reads `loguniform(1e-4, 1e-1)` in YAML, on the command line and in Python; Ray's objects
(`tune.loguniform(1e-4, 1e-1)`) are taken too and become the same value.
"""

from tuner.space.kinds import (
    Choice,
    Domain,
    Normal,
    Numeric,
    Space,
    Value,
    domains_of,
    names_of,
    resolve,
    space_size,
    space_text,
)
from tuner.space.parsing import from_ray, is_domain_text, parse_domain, parse_space

__all__ = [
    "Choice",
    "Domain",
    "Normal",
    "Numeric",
    "Space",
    "Value",
    "domains_of",
    "from_ray",
    "is_domain_text",
    "names_of",
    "parse_domain",
    "parse_space",
    "resolve",
    "space_size",
    "space_text",
]
