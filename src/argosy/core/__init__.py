"""The nouns: frozen dataclasses, units and errors. Standard library only."""
