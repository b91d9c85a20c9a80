//! Drives shards with tokio: worker pool, actions, recovery
