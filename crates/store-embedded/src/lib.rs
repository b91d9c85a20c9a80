//! The embedded store: SQLite in WAL mode, one writer thread, group commit
