"""From what the user wrote to a validated spec, and what running it will take."""
