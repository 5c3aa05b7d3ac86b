"""A local chat API for tests and benches: it answers as an oracle does, and fails as services do."""
