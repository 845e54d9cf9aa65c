"""A cluster that is joined: who answers there, what it has, what must reach its nodes."""
