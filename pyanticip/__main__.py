"""``python -m pyanticip``."""

from pyanticip.cli import main

if __name__ == "__main__":
    main()
