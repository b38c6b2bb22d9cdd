"""The HTTP API and the page: an ASGI application over a client, and the server that carries it."""
