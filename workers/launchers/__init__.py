"""Ways of starting and stopping a server. They know processes, not engines."""
