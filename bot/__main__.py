"""`python -m bot`, another way to run `countersign`."""

from bot.ops.cli import main

if __name__ == "__main__":
    main()
