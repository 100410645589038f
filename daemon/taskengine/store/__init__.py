"""Postgres, the truth: one module for each noun, one file for each statement (see README.md)."""
