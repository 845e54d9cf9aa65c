"""Ray: one of our own on this machine, a cluster that is joined, and jobs sent to one."""

LOCAL = "local"  # the address of a Ray that is started here for one search
