//! `cargo xtask scaling`: the tables and the plot of `docs/scaling.md`, worked out from
//! `xtask/scaling.toml`. The page is checked by `cargo xtask tidy`, so that neither is changed
//! without the other.

mod inputs;
mod model;
mod page;
mod plot;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::performance::replaced;
use inputs::Inputs;
pub(crate) use page::grouped;

pub(crate) const PAGE: &str = "docs/scaling.md";
pub(crate) const PLOT: &str = "docs/images/scaling.svg";

/// The section of the page that is made here.
const SECTION: &str = "model";

/// Writes the section and the plot.
///
/// # Errors
/// An input is missing, or a file cannot be read or written.
pub(crate) fn write(root: &Path) -> Result<()> {
    let inputs = Inputs::read(root)?;
    fs::write(root.join(PAGE), page_of(root, &inputs)?).context(PAGE)?;
    fs::write(root.join(PLOT), plot::svg(&inputs)?).context(PLOT)?;
    eprintln!("{PAGE} and {PLOT} are written");
    Ok(())
}

/// The files that are not what the task would write.
///
/// # Errors
/// An input is missing, or the page has no place for the section.
pub(crate) fn differs(root: &Path) -> Result<Vec<&'static str>> {
    let inputs = Inputs::read(root)?;
    let should = [(PAGE, page_of(root, &inputs)?), (PLOT, plot::svg(&inputs)?)];
    let is_other = |(file, text): &(&'static str, String)| {
        fs::read_to_string(root.join(file)).unwrap_or_default() != *text
    };
    let others = should.into_iter().filter(is_other);
    Ok(others.map(|(file, _)| file).collect())
}

fn page_of(root: &Path, inputs: &Inputs) -> Result<String> {
    let page = fs::read_to_string(root.join(PAGE)).context(PAGE)?;
    replaced(&page, SECTION, &page::text(inputs)?).context(PAGE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_or_a_plot_that_was_typed_is_found() {
        let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let root = std::env::temp_dir().join(format!("scaling-{}", std::process::id()));
        for folder in ["xtask", "docs/images"] {
            fs::create_dir_all(root.join(folder)).expect("a folder");
        }
        fs::copy(repository.join(inputs::FILE), root.join(inputs::FILE)).expect("the inputs");
        let typed = "# Scaling\n<!-- model:begin -->\ntyped\n<!-- model:end -->\nrest\n";
        fs::write(root.join(PAGE), typed).expect("a page");
        assert_eq!(differs(&root).expect("an answer"), [PAGE, PLOT]);
        write(&root).expect("they are written");
        assert!(differs(&root).expect("an answer").is_empty());
        let page = fs::read_to_string(root.join(PAGE)).expect("the page");
        assert!(page.ends_with("<!-- model:end -->\nrest\n"));
        fs::write(root.join(PAGE), page.replacen("1,000,000", "1,000,001", 1)).expect("a page");
        assert_eq!(differs(&root).expect("an answer"), [PAGE]);
        fs::remove_dir_all(&root).expect("it was ours");
    }
}
