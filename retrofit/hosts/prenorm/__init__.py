"""What the generations with pre-norm blocks share: v3 and v3.5."""
