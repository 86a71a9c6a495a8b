"""What the planner takes as known: measured sizes of codecs and records, and its own margins."""

CODECS = ("fp32", "int8", "int4", "ternary")  # from the most exact to the smallest

# Bits per parameter of a payload, block scales and entropy coding included, on real updates of the
# demo's model, between the first and later ones: docs/measured/codecs.md, 2026-11-30.
BITS = {"fp32": 32.0, "int8": 7.8, "int4": 3.6, "ternary": 1.1}
TERNARY_COST = 0.016  # more loss than fp32 after the same tokens: 1.963 to 1.933 (docs/log.md)
BLOCK = 128  # elements that share a scale; with 512 the same trial lost 2 to 4 % (docs/log.md)

# A site's own records of a round (contribution, progress, digest, evaluation), signed, with the
# HTTP around them; every site reads everybody's.
RECORD_BYTES = 4_000
UP_TRIPS = 2  # round trips: put the blob, append the record
DOWN_TRIPS = 2  # the long poll's answer, then the blobs

STEPS = 30  # local steps per round at which the exchange was measured (docs/measured/parity.md)
MOST_STEPS = 200  # beyond it sites drift apart: H=50 was measured, 500 is the field's largest
LEAST_ROUNDS = 20  # fewer agreements than that and a run is over before the sites have met
LEAST_SECONDS = 5.0  # below it records would outweigh payloads of small models

HIDES = 0.5  # of a window: what a transfer may take, so that jitter and retries stay hidden
SPARE = 0.1  # of a window: what a more exact codec may take where it buys little loss
TRAFFIC_SHARE = 0.05  # of the hosts' price: what a more exact codec may cost in traffic

LAN_MBIT = 1_000.0  # between the hosts of a site; not measured, gigabit assumed
VECTORS = 7  # fp32 copies the exchange keeps of the model: a, v, p, e, e', and two to work in
USABLE = 0.9  # of a host's memory
START_S = 20.0  # processes up, torch imported, sources read
