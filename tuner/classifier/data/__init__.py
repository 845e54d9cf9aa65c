"""Images: loaded once, kept as uint8, split once, augmented a whole batch at a time."""
