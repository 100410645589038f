"""What happens is told here once: `events` is the seam, logs word it, metrics count it."""
