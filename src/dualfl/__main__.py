"""`python -m dualfl` is the command `dualfl`."""

from dualfl.cli import main

if __name__ == "__main__":
    main(prog_name="dualfl")
