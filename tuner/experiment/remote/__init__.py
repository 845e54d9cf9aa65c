"""Experiments in an object store: what is written here is copied to a URL, in order."""
