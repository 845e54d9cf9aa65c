"""A cluster that is joined: its head, its nodes, and what is sent to them."""
