"""Experiments in a browser: a page that follows them, and the JSON endpoints that it is made of."""
