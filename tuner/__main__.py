"""`python -m tuner`."""

from tuner.cli import main

main()
