//! Drives shards with a seeded loop: virtual time, crashes, faults, and the oracle
