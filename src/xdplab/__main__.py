"""`python -m xdplab` is the command `xdplab`."""

from xdplab.cli.main import main

if __name__ == "__main__":
    main()
