"""Searchers: they suggest configs. Each module is a strategy of its name, or `_machinery`."""
