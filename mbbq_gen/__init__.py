"""mbbq-gen: measures the social bias of chat models by what they write."""

__version__ = "0.1.0"
