"""Searchers: they suggest configs."""
