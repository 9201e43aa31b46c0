"""What the console and the schema registry have in common as HTTP servers: the server around an
ASGI application, and the limit on failed logins. Imports `base` only; needs uvicorn.
"""
