"""A model that is handed over: write it, read it, convert it, describe it, evaluate it."""
