"""`python -m fitproof`: the command, where its script is not on PATH."""

from .cli import main

if __name__ == "__main__":
    main()
