"""What the fast engine is worth: the same runs by other means, side by side."""
