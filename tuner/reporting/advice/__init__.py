"""Advice on a finished or running search: findings with figures, and a command for each."""
