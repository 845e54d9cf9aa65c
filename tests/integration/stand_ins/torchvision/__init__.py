"""Stands in for torchvision in Ray's examples: the data that they download, made up."""

from torchvision import datasets, transforms

__all__ = ["datasets", "transforms"]
