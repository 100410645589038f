"""The verbs of an execution's life: dispatch, acquire, run, settle. Each touches one store at a time.

acquire, run and settle never import each other: the worker service strings them together.
"""
