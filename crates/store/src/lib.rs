//! The storage contract, the versioned envelope, the in-memory store, and the conformance suite
