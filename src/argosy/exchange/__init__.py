"""How sites agree on the next model: codecs, outer step, and both sides of the protocol. Pure."""
