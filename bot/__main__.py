"""`python -m bot`, another way to run `countersign`."""

from bot.cli import main

if __name__ == "__main__":
    main()
