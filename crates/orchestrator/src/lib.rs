//! The shard: many runs, their inputs, appends, effects and deadlines, without a clock or a backend
