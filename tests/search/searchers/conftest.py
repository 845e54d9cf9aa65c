"""Contracts of searchers start a process of their own, which is forked from a ready one."""

import forked

forked.prepare()
