"""Sources of a user's images, one module a scheme; `training.dataset` is `SCHEME:LOCATION`.

To add a scheme, write one module here and a test. The module declares `SOURCE`, a `Source`, under
the module's own name. It must be importable without torch and quickly, since a spec is checked with
it. Names with an underscore are machinery: what the schemes give, and how it is decoded and kept.
"""
