//! Tests of the language as a whole.

mod generate;
mod javascript;
