"""The command line: `nnefc` and `python -m nnefc`."""

import sys


def main() -> None:
    """Run the command line; Ctrl-C while it is imported prints no traceback."""
    try:
        from nnefc.cli import main as run  # takes 0.06 s

        run()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
