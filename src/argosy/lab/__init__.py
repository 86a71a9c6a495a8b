"""A fleet on one desk: processes as hosts, shaped links, pulled plugs, and judges of what came."""
