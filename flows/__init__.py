"""Prefect flows and tasks, the evidence store, the judgement and the command line."""
