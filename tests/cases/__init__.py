"""Faults that other systems met in production, tried here: one test or more for each case."""
