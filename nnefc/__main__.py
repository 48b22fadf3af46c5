"""`python -m nnefc` is the command line."""

from nnefc.cli import main

main()
