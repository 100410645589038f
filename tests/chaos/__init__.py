"""The chaos suite: real daemons under load and faults, judged from outside."""
