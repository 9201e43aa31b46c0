"""One module per request type: encodes the request and interprets the response."""
