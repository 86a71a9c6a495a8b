"""One run from plan to model: what stands in its logbook decides what is done next."""
