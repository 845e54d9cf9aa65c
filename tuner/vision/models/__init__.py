"""The models that ship, one module each; names with an underscore are machinery they share.

To add a model, write one module here and a test. The module declares `MODELS`, each a
`ModelInfo` by its name. It must be importable without torch, since a spec is checked without it:
import torch in the function that builds, or put classes into an underscored module.
"""
