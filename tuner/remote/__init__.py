"""Experiments in an object store: what is written in a folder here follows to a URL, in order."""
