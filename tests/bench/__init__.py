"""The benchmark: what one worker process reaches on the embedded servers."""
