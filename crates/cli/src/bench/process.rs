//! Figures of the whole program, measured on itself as a child process.

use super::{Report, Scratch, Sizes};
use crate::exit::Failure;

pub(crate) fn measure(_: &Scratch, _: Sizes, _: &mut Report) -> Result<(), Failure> {
    Ok(())
}
