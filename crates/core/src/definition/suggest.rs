//! "Did you mean": the nearest known name, at a bounded price.

/// How many pairs of characters are compared in one parse (some 0.1 s): thousands
/// of dangling references among 100,000 nodes must not take minutes to refuse.
const BUDGET: usize = 20_000_000;

/// Finds nearest names until its budget is spent.
#[derive(Debug)]
pub(crate) struct Suggester {
    left: usize,
}

impl Default for Suggester {
    fn default() -> Self {
        Self { left: BUDGET }
    }
}

impl Suggester {
    /// The sentence that suggests the nearest of these names, if one is near.
    pub(crate) fn did_you_mean<'a>(
        &mut self,
        name: &str,
        known: impl IntoIterator<Item = &'a str>,
    ) -> Option<String> {
        self.nearest(name, known)
            .map(|nearest| format!("did you mean '{nearest}'?"))
    }

    /// The nearest of these names, if one is near.
    pub(crate) fn nearest<'a>(
        &mut self,
        name: &str,
        known: impl IntoIterator<Item = &'a str>,
    ) -> Option<&'a str> {
        // Longer texts are no names, and the distance costs their product.
        if name.len() > 128 {
            return None;
        }
        let allowed = match name.chars().count() {
            0 | 1 => 0,
            length => (length / 3).clamp(1, 3),
        };
        let mut best: Option<(usize, &str)> = None;
        for candidate in known {
            if self.left == 0 {
                break;
            }
            self.left = self.left.saturating_sub(1);
            if candidate.len().abs_diff(name.len()) > allowed || candidate.len() > 128 {
                continue;
            }
            let distance = if candidate.eq_ignore_ascii_case(name) {
                0
            } else {
                self.left = self.left.saturating_sub(name.len() * candidate.len());
                strsim::osa_distance(name, candidate)
            };
            if distance <= allowed && best.is_none_or(|(least, _)| distance < least) {
                best = Some((distance, candidate));
            }
        }
        best.map(|(_, candidate)| candidate)
    }
}
