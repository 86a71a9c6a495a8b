"""Argosy: one model, trained on machines anywhere, agreed upon through one logbook."""

__version__ = "0.1.0"
