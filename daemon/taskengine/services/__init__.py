"""One actor a file: thin clocks around the verbs of `lifecycle`. They do not know each other."""
