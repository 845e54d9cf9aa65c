"""Search spaces: domains, constraints, grids, and their encoding as numbers."""
