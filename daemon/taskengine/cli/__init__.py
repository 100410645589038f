"""The command line. It talks to the stores directly, so it works with every daemon down."""
