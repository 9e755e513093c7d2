"""Slipstream: races between an LLM server with and without speculative decoding."""

__version__ = "0.1.0"
