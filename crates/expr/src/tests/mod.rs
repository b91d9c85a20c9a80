//! Tests of the language as a whole.

mod audit;
mod fuzz;
mod generate;
mod hostile;
mod javascript;
mod limits;
mod meter;
mod problems;
mod templates;
mod values;
