"""What a training step takes on given cards, in time and memory, before it is run. Pure."""
