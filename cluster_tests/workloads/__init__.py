"""What clients do while brokers fail, and what must hold of it afterwards."""
