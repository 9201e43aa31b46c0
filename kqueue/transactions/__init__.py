"""The transaction coordinator: the producer of each transactional id, and its transactions."""
