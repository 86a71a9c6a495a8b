"""Train on one host of one site; the only room that imports torch."""
