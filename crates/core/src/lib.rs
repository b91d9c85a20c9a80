//! What a run means: definitions, plans, routing, and the pure state machine of a run
