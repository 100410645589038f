"""How the process lives: clock, services, supervisor, systemd. It knows nothing of jobs."""
