"""Runs a search: one tune.run, the searchers and schedulers that steer it, and resuming."""
