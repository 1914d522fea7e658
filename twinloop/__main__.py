"""`python -m twinloop`: the command line where its script is not on the path."""

from twinloop.cli import main

if __name__ == "__main__":
    main()
