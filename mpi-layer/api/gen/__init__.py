"""Parts of the wrapper generator; generate.py is the command."""


class GenerateError(Exception):
    """Input that the generator cannot work with; str() is one line per finding."""
