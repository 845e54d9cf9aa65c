"""Schedulers: they stop trials. Each module is one of its name, or `_machinery`."""
