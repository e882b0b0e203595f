"""`python -m bot`: the same as `countersign`."""

from bot.cli import main

if __name__ == "__main__":
    main()
