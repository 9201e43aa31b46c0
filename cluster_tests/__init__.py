"""Real processes: brokers that are killed, paused and parted under load, every record counted."""
