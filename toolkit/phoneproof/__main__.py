"""`python -m phoneproof` is the command `phoneproof`."""

from phoneproof.cli.main import main

if __name__ == "__main__":
    main(prog_name="phoneproof")
