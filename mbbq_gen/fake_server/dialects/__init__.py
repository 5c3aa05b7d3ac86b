"""The shapes of the APIs: how each asks, answers, fails and tells its limits. One module an API."""
