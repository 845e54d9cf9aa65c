"""What drives any trainable within a trial: ranks, checkpoints, memory, logs; it knows no model."""
