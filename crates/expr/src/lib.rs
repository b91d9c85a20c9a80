//! The expression language: parse, check, evaluate, references
