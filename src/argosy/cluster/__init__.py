"""Machines: start, adopt, hear and stop what runs on them; providers that lend them."""
