"""A read-only view of experiments: the best trial, comparisons, confirmations, tables."""
