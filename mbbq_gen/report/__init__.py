"""Results that a person reads."""
