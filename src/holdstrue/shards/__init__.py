"""A state in shards: where rows lie and meet, and the stages of a batch. Knows nothing of Spark."""
