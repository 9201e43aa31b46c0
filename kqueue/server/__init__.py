"""Floor 7: sockets, the event loop and threads; what is below knows none of them."""
