"""Checks of the machine, the storage and the cluster, one topic a module."""
