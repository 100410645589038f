"""Reads both stores, says what it means, and names the remedy."""
