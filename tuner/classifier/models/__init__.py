"""The models that ship with tuner: one module each, built by name in `build`."""
