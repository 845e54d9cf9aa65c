"""Exports of a model: write, read, convert, describe, evaluate."""
