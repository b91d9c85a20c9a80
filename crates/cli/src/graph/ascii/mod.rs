//! Text.
use super::*;
pub(super) fn render(_graph: &Graph, _options: &RenderOptions) -> Result<String, TooLarge> {
    Ok(String::new())
}
