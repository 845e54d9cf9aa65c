"""Several searches on one machine or cluster: what waits, who runs it, and how they share."""
