"""The benchmark: what one worker process reaches on the embedded servers. See `python -m tests.bench -h`."""
