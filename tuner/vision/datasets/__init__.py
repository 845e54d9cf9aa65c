"""The data sets that ship, one module each; names with an underscore are machinery they share.

To add a data set, write one module here and a test. The module declares `DATASET`, a `DatasetInfo`,
under the module's own name. It must be importable without torch and quickly, since a spec is
checked with it: import numpy in the function that loads.
"""
