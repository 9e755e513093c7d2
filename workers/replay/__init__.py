"""The replay server: plays a published or recorded race as an OpenAI-compatible server."""
