"""`python -m tuner`."""

from tuner.cli.main import main

main()
