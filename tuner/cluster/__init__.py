"""Ray: one of our own on this machine, a cluster that is joined, and jobs sent to one."""
