"""Readers of what other tools wrote, into the types of this room: models, targets, traffic."""
