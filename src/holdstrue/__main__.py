"""`python -m holdstrue`: the command line."""

from holdstrue.cli.main import run

if __name__ == "__main__":
    run()
